//! Imports `server.json` of the official registry (MGP §15.2).
//!
//! The document comes from an untrusted author and becomes part of the user's own file, which may read files and
//! run commands. So every text of it is escaped, and only the variables created in this module remain.

use serde_json::Value;

use super::variables::{escaped, is_balanced, name_of};
use super::{Entry, Import, ImportError, ImportedServer};

/// Imports the first package that can be started, else the first remote.
pub(super) fn read(value: &Value, import: &mut Import) -> Result<(), String> {
    // The registry's API wraps the document in a member `server`.
    let value = value.get("server").filter(|server| server.is_object()).unwrap_or(value);
    let name = text(value, "name").ok_or("it has no `name`, so it is not a `server.json`")?;
    let list = |key: &str| value.get(key).and_then(Value::as_array).into_iter().flatten();
    let mut notes = Vec::new();
    let started = list("packages").find_map(|package| program(package, &mut notes));
    let newer = list("remotes").filter(|remote| !is_sse(remote));
    let mut remotes = newer.chain(list("remotes").filter(|remote| is_sse(remote)));
    match started.or_else(|| remotes.find_map(|remote| place(remote, &mut notes))) {
        Some(entry) => {
            let name = name.to_owned();
            import.servers.push(ImportedServer { name, project: None, entry, notes });
        }
        None => import.refused.push(ImportError {
            name: name.to_owned(),
            why: "it has no package of npm, pypi or oci, and no remote".to_owned(),
        }),
    }
    Ok(())
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}

fn program(package: &Value, notes: &mut Vec<String>) -> Option<Entry> {
    let kind = text(package, "registryType").or_else(|| text(package, "registry_name"))?;
    let name = text(package, "identifier").or_else(|| text(package, "name"))?;
    let name = escaped(name);
    let version = text(package, "version").filter(|version| !version.is_empty()).map(escaped);
    let with = |mark: &str| match &version {
        Some(version) => format!("{name}{mark}{version}"),
        None => name.clone(),
    };
    let mut env = std::collections::BTreeMap::new();
    let given =
        package.get("environmentVariables").or_else(|| package.get("environment_variables"));
    for variable in given.and_then(Value::as_array).into_iter().flatten() {
        if let Some(name) = text(variable, "name") {
            env.insert(name.to_owned(), wanted(name, variable, notes));
        }
    }
    let mut args = arguments(package, "runtimeArguments", notes);
    let command = match kind {
        "npm" => {
            args.insert(0, "-y".into());
            args.push(with("@"));
            "npx"
        }
        "pypi" => {
            args.push(with("=="));
            "uvx"
        }
        "oci" | "docker" => {
            args.splice(0..0, ["run", "-i", "--rm"].map(str::to_owned));
            // The container sees only variables that are passed by name.
            args.extend(env.keys().flat_map(|name| ["-e".to_owned(), escaped(name)]));
            args.push(with(":"));
            "docker"
        }
        _ => return None,
    };
    args.extend(arguments(package, "packageArguments", notes));
    Some(Entry { command: Some(command.into()), args, env, ..Entry::default() })
}

fn arguments(package: &Value, key: &str, notes: &mut Vec<String>) -> Vec<String> {
    let mut args = Vec::new();
    for argument in package.get(key).and_then(Value::as_array).into_iter().flatten() {
        let name = text(argument, "name");
        let hint = text(argument, "valueHint").or(name).unwrap_or("ARGUMENT");
        let value = text(argument, "value").or_else(|| text(argument, "default"));
        let required = argument.get("isRequired").and_then(Value::as_bool).unwrap_or_default();
        if value.is_none() && !required {
            continue;
        }
        let value = value.map_or_else(
            || {
                let variable = name_of(&hint.trim_start_matches('-').to_ascii_uppercase());
                notes.push(format!(
                    "the argument `{hint}` is the variable `{variable}`; set it before you start"
                ));
                format!("${{{variable}}}")
            },
            escaped,
        );
        args.extend(name.filter(|_| text(argument, "type") == Some("named")).map(escaped));
        args.push(value);
    }
    args
}

fn is_sse(remote: &Value) -> bool {
    text(remote, "type").or_else(|| text(remote, "transport_type")) == Some("sse")
}

fn place(remote: &Value, notes: &mut Vec<String>) -> Option<Entry> {
    let url = escaped(text(remote, "url")?);
    let headers = remote.get("headers").and_then(Value::as_array).into_iter().flatten();
    let headers = headers.filter_map(|header| {
        let name = text(header, "name")?;
        Some((name.to_owned(), wanted(name, header, notes)))
    });
    let headers = headers.collect();
    let transport = is_sse(remote).then_some("sse");
    Some(Entry { url: Some(url), headers, transport, ..Entry::default() })
}

/// Returns the value for a variable or header: its fixed value, or else a `${…}` for the user to set.
fn wanted(name: &str, value: &Value, notes: &mut Vec<String>) -> String {
    if let Some(fixed) = text(value, "value").filter(|fixed| !fixed.contains('{')) {
        return escaped(fixed);
    }
    let variable = name_of(&name.to_ascii_uppercase());
    match text(value, "default").filter(|default| is_balanced(default)) {
        Some(default) => format!("${{{variable}:-{}}}", escaped(default)),
        None if value.get("isRequired").and_then(Value::as_bool) == Some(true) => {
            notes.push(format!("it needs the variable `{variable}`; set it before you start"));
            format!("${{{variable}}}")
        }
        None => format!("${{{variable}:-}}"),
    }
}
