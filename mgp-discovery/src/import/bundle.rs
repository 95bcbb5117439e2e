//! Imports the `manifest.json` of an MCP bundle (`.mcpb`, earlier `.dxt`), whose files were unpacked into a folder.
//!
//! Every text is escaped, like the texts of a `server.json`, so that only the variables that the bundle format defines
//! are replaced (<https://github.com/modelcontextprotocol/mcpb/blob/main/MANIFEST.md>).

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use super::host::Host;
use super::package::{Answer, Answers, Need};
use super::variables::{escaped, is_balanced, name_of};
use super::{Entry, Import, ImportError, ImportedServer};
use crate::config::limits;

/// The manifest of a bundle.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Bundle {
    /// The name of the bundle.
    pub name: String,
    /// The version of the bundle.
    pub version: String,
    /// The display name of the bundle.
    pub title: Option<String>,
    /// The description of the bundle.
    pub description: String,
    kind: String,
    entry_point: Option<String>,
    start: Map<String, Value>,
    settings: Map<String, Value>,
}

/// The word for this operating system in manifests.
const PLATFORM: &str = if cfg!(windows) {
    "win32"
} else if cfg!(target_os = "macos") {
    "darwin"
} else {
    "linux"
};

impl Bundle {
    /// Reads a manifest.
    ///
    /// # Errors
    /// Returns the reason why the manifest is not valid, or the bundle cannot be started on this machine.
    pub fn new(manifest: &Value) -> Result<Self, String> {
        let text = |value: &Value, name: &str| value[name].as_str().map(str::to_owned);
        let needed = |name: &str| {
            text(manifest, name)
                .filter(|text| !text.trim().is_empty())
                .ok_or_else(|| format!("its manifest has no `{name}`"))
        };
        let (name, version) = (needed("name")?, needed("version")?);
        let platforms = manifest["compatibility"]["platforms"].as_array();
        if platforms.is_some_and(|all| !all.iter().any(|one| one == PLATFORM)) {
            return Err(format!("it is not for this system (`{PLATFORM}`)"));
        }
        let server = &manifest["server"];
        let kind = text(server, "type").ok_or("its manifest has no `server.type`")?;
        let mut start = server["mcp_config"].as_object().cloned().unwrap_or_default();
        if let Some(Value::Object(own)) =
            start.remove("platform_overrides").as_mut().and_then(|all| all.get_mut(PLATFORM))
        {
            start.append(own);
        }
        if !start.get("command").is_some_and(Value::is_string) && kind != "uv" {
            return Err("its manifest has no `server.mcp_config.command`".to_owned());
        }
        check_start(&start)?;
        Ok(Self {
            name,
            version,
            title: text(manifest, "display_name"),
            description: text(manifest, "description").unwrap_or_default(),
            kind,
            entry_point: text(server, "entry_point"),
            start,
            settings: manifest["user_config"].as_object().cloned().unwrap_or_default(),
        })
    }

    /// Returns the settings that the bundle needs from the user.
    #[must_use]
    pub fn needs(&self) -> Vec<Need> {
        let need = |(key, described): (&String, &Value)| {
            let is_set = |name: &str| described[name].as_bool().unwrap_or_default();
            let text = |name: &str| described[name].as_str();
            let about = [text("title"), text("description")].into_iter().flatten();
            let defaults = values(&described["default"]);
            Need {
                variable: variable(key),
                description: about.collect::<Vec<_>>().join(": "),
                is_required: is_set("required"),
                is_secret: is_set("sensitive"),
                default: (!defaults.is_empty()).then(|| defaults.join(", ")),
                choices: if text("type") == Some("boolean") {
                    vec!["true".to_owned(), "false".to_owned()]
                } else {
                    Vec::new()
                },
                is_list: is_set("multiple"),
            }
        };
        self.settings.iter().map(need).collect()
    }

    /// Returns the server as input for [`Plan::new`](super::Plan::new). `answers` has the user's values by variable,
    /// and `folder` contains the unpacked files. The server is refused if its values are too long.
    #[must_use]
    pub fn import(&self, folder: &Path, answers: &Answers) -> Import {
        let (host, source) = (Host::Registry, folder.to_owned());
        let mut import = Import { host, source, servers: Vec::new(), refused: Vec::new() };
        let (folder, settings) = (folder.to_string_lossy(), &self.settings);
        let mut filling = Filling { folder: &folder, settings, answers, bytes: 0 };
        let command = self.start.get("command").and_then(Value::as_str);
        let mut args = Vec::new();
        for arg in self.start.get("args").and_then(Value::as_array).into_iter().flatten() {
            args.extend(filling.argument(&plain(arg).unwrap_or_default()));
        }
        if self.kind == "uv" && command.is_none() {
            let entry = self.entry_point.as_deref().unwrap_or("main.py");
            args = ["run", "--directory", filling.folder, entry].map(escaped).to_vec();
        }
        let mut env = BTreeMap::new();
        for (name, value) in self.start.get("env").and_then(Value::as_object).into_iter().flatten()
        {
            env.insert(name.clone(), filling.text(&plain(value).unwrap_or_default()));
        }
        let entry = Entry {
            command: Some(filling.text(command.unwrap_or("uv"))),
            args,
            env,
            cwd: Some(escaped(filling.folder)),
            published: Some(format!("{}@{}", self.name, self.version)),
            ..Entry::default()
        };
        let name = self.name.clone();
        if filling.bytes > limits::MAX_FILE_BYTES {
            let why = "the values of its settings are too long for a configuration file".to_owned();
            import.refused.push(ImportError { name, project: None, why });
            return import;
        }
        let needs = self.needs().into_iter();
        let missing = needs.filter(|need| {
            need.is_required && need.default.is_none() && !answers.contains_key(&need.variable)
        });
        let notes = missing
            .map(|need| {
                format!("it needs the variable `{}`; set it before you start", need.variable)
            })
            .collect();
        import.servers.push(ImportedServer { name, project: None, entry, notes });
        import
    }
}

/// Returns an argument or the value of a variable as a text, also if it is a number or boolean in the manifest. Returns
/// `None` for other values.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

/// Checks that all arguments and variables can be converted to texts, because the server would otherwise start without
/// some of them.
fn check_start(start: &Map<String, Value>) -> Result<(), String> {
    let is_plain = |value: &Value| plain(value).is_some();
    let fits = |name: &str, is_fit: &dyn Fn(&Value) -> bool| match start.get(name) {
        Some(value) if !value.is_null() && !is_fit(value) => Err(format!(
            "`server.mcp_config.{name}` in its manifest has something that is not a text"
        )),
        _ => Ok(()),
    };
    fits("args", &|args| args.as_array().is_some_and(|all| all.iter().all(is_plain)))?;
    fits("env", &|env| env.as_object().is_some_and(|all| all.values().all(is_plain)))
}

/// Returns the name of the environment variable that contains the value of a setting.
fn variable(key: &str) -> String {
    name_of(&key.to_ascii_uppercase())
}

/// Returns the texts of a default value; a list can have several texts.
fn values(default: &Value) -> Vec<String> {
    match default {
        Value::Null | Value::Object(_) => Vec::new(),
        Value::String(text) => vec![text.clone()],
        Value::Array(all) => all.iter().flat_map(values).collect(),
        other => vec![other.to_string()],
    }
}

/// The values that replace the variables in the texts of a manifest: folders, and the user's settings.
struct Filling<'a> {
    folder: &'a str,
    settings: &'a Map<String, Value>,
    answers: &'a Answers,
    /// The size of all returned values of settings, with one more byte for each value. Above the maximum size of a
    /// configuration file, settings have no values, so that a small manifest cannot become a huge entry.
    bytes: u64,
}

impl Filling<'_> {
    /// Returns the arguments for one text; if the whole text is a setting with several values, each becomes an
    /// argument.
    fn argument(&mut self, text: &str) -> Vec<String> {
        let whole = text.strip_prefix("${user_config.").and_then(|rest| rest.strip_suffix('}'));
        match whole.filter(|key| !key.contains('}')) {
            Some(key) => self.setting(key),
            None => vec![self.text(text)],
        }
    }

    /// Replaces the variables in a text, until the text is too long for a value.
    fn text(&mut self, text: &str) -> String {
        let (mut out, mut rest) = (String::new(), text);
        while out.len() <= limits::MAX_VALUE_BYTES
            && let Some((before, after)) = rest.split_once("${")
            && let Some((name, after)) = after.split_once('}')
        {
            out.push_str(&escaped(before));
            out.push_str(&self.value(name));
            rest = after;
        }
        out + &escaped(rest)
    }

    fn value(&mut self, name: &str) -> String {
        if let Some(key) = name.strip_prefix("user_config.") {
            return self.setting(key).into_iter().next().unwrap_or_default();
        }
        let home = |folder: &str| format!("${{HOME}}{folder}");
        match name {
            "__dirname" => escaped(self.folder),
            "HOME" => home(""),
            "DESKTOP" => home("/Desktop"),
            "DOCUMENTS" => home("/Documents"),
            "DOWNLOADS" => home("/Downloads"),
            "/" | "pathSeparator" => std::path::MAIN_SEPARATOR.to_string(),
            _ => escaped(&format!("${{{name}}}")),
        }
    }

    /// Returns the values of a setting: the user's answers, else the default, else a `${…}` that reads an environment
    /// variable.
    fn setting(&mut self, key: &str) -> Vec<String> {
        let Some(described) = self.settings.get(key) else { return vec![String::new()] };
        if self.bytes > limits::MAX_FILE_BYTES {
            return Vec::new();
        }
        let values = self.values_of(&variable(key), described);
        self.bytes += values.iter().map(|value| value.len() as u64 + 1).sum::<u64>();
        values
    }

    fn values_of(&mut self, variable: &str, described: &Value) -> Vec<String> {
        if let Some(answers) = self.answers.get(variable) {
            return answers.iter().map(|Answer(answer)| answer.clone()).collect();
        }
        let defaults = values(&described["default"]);
        if !defaults.is_empty() {
            return defaults.iter().map(|default| self.default_text(default)).collect();
        }
        let is_required = described["required"].as_bool().unwrap_or_default();
        vec![format!("${{{variable}{}}}", if is_required { "" } else { ":-" })]
    }

    /// Returns the text of a default, in which variables for folders are replaced, but not variables for settings.
    fn default_text(&mut self, default: &str) -> String {
        // Do not replace settings in a default: if it named its own setting, the replacement would never end.
        if default.contains("${user_config.") || !is_balanced(default) {
            return escaped(default);
        }
        self.text(default)
    }
}
