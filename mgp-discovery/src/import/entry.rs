//! Converts the entry of a server in the file of another host (MGP §15.2).

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value};

use super::Host;
use super::tool_limit::{ToolLimit, ToolLists};
use super::variables::{
    Findings, Meaning, add_braces, braced, braced_or_kept, escaped, is_home, mapped_in, name_of,
    secret,
};
use crate::config::{limits, valid_id};
use crate::expand::closing;

/// The entry of a server in the file of another host, converted to the keys of `mgp.toml`.
#[derive(Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Entry {
    /// The program of the server.
    pub command: Option<String>,
    /// The arguments of the program.
    pub args: Vec<String>,
    /// The working directory of the program.
    pub cwd: Option<String>,
    /// The environment variables of the program.
    pub env: BTreeMap<String, String>,
    /// The names of environment variables that the program inherits.
    pub pass_env: Vec<String>,
    /// The URL of the server, instead of a program.
    pub url: Option<String>,
    /// The headers of every request to the server.
    pub headers: BTreeMap<String, String>,
    /// The time that the server may take to start, if the entry has one.
    pub start_timeout: Option<Duration>,
    /// The time that a tool call may take, if the entry has one.
    pub timeout: Option<Duration>,
    /// The era of MCP, if the entry has one.
    pub era: Option<&'static str>,
    /// The transport, if it cannot be inferred from the other members.
    pub transport: Option<&'static str>,
    /// The name and version of the published server that this entry runs, e.g. `io.github.example/files@1.2.0`.
    pub published: Option<String>,
    /// The argument that names the package of a published server, e.g. `files@1.2.0`.
    pub package: Option<String>,
    /// The tools of the server that its host lets a model use.
    pub tools: ToolLimit,
}

// Shows the command only: values of configurations may be secret.
mgp_types::opaque_debug!(Entry { command });

impl Entry {
    /// Returns the size of the program, the URL, the variables and the headers, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        let texts = [&self.command, &self.cwd, &self.url].into_iter().flatten().chain(&self.args);
        let pairs = [&self.env, &self.headers].into_iter().flatten();
        let sizes = texts.map(String::len).chain(pairs.map(|(name, text)| name.len() + text.len()));
        sizes.map(|size| size as u64).sum()
    }

    /// Replaces variables in all texts but those of `env` by the values in the `env` of this entry, as Copilot CLI and
    /// Goose do.
    pub(super) fn set_own_variables(&mut self) {
        let of_program = self.args.iter_mut().chain(&mut self.command).chain(&mut self.cwd);
        for text in of_program.chain(&mut self.url).chain(self.headers.values_mut()) {
            *text = with_own_variables(text, &self.env);
        }
    }
}

/// Returns a text with the variables that `env` contains replaced by their values. Variables in these values are not
/// replaced, and a text that is too long for a value is not extended, so that a small file cannot become a huge entry.
fn with_own_variables(text: &str, env: &BTreeMap<String, String>) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while out.len() <= limits::MAX_VALUE_BYTES
        && let Some((before, after)) = rest.split_once("${")
    {
        out.push_str(before);
        let dollars = before.len() - before.trim_end_matches('$').len();
        // Skip `$${`, which is plain text.
        let end = if dollars.is_multiple_of(2) { closing(after) } else { None };
        let value = end.and_then(|end| {
            let name = after[..end].split(":-").next()?;
            Some((env.get(name)?.as_str(), &after[end + 1..]))
        });
        let (value, after) = value.unwrap_or(("${", after));
        out.push_str(value);
        rest = after;
    }
    out + rest
}

/// The reason reported for a server whose variables are in another file.
const ENV_FILE: &str =
    "its variables are in an `envFile`; write them to `env` there, then try again";

/// The reason reported for a server whose headers come from the output of a program.
const HEADERS_HELPER: &str = "only its host can run its `headersHelper`";

/// The reason reported for a server with a kind of login that only Gemini CLI supports.
const HOST_LOGIN: &str = "only its host has the login that its `authProviderType` names";

/// The reason reported for a program that its host runs in a sandbox.
const HOST_SANDBOX: &str = "its host runs it in a sandbox, which it would lose here";

/// The reason reported for a server whose settings are in the hub of Continue.
const HUB_BLOCK: &str = "its `uses` names settings that only its host can load";

/// The reason reported if the variable with the bearer token has a name that is not valid for a variable.
const NO_VARIABLE: &str = "its `bearer_token_env_var` is not the name of a variable";

/// The reason reported if `env_http_headers`, which maps each header to the variable with its value, contains a name
/// that is not valid for a variable.
const NO_HEADER_VARIABLE: &str =
    "its `env_http_headers` has something that is not the name of a variable";

/// The reason reported for an inherited variable whose name is not valid for a variable.
const NO_INHERITED_VARIABLE: &str =
    "its `env_vars` has something that is not the name of a variable";

/// The reason reported for an inherited variable whose source is not `local`, i.e. a variable of another machine.
const REMOTE_VARIABLE: &str =
    "its `env_vars` has a variable whose `source` is not `local`, which only its host can read";

/// The reason reported for a stored secret whose name is not valid for a secret.
const NO_SECRET: &str = "its `env_keys` has something that is not the name of a secret";

/// The reason reported for a server that is switched off in its host.
pub(super) const SWITCHED_OFF: &str = "it is switched off there";

/// The reason reported for an extension that is built into its host.
pub(super) const PART_OF_HOST: &str = "it is a part of its host";

/// The reason reported for a server that an extension of its host starts.
const OF_EXTENSION: &str = "an extension of its host starts it";

/// The reason reported for an entry that starts nothing.
pub(super) const NO_TARGET: &str = "it has neither a `command` nor a `url`";

/// The members that switch a server off by the value `false`: of most hosts, of Cherry Studio, and of Jan.
const ENABLED: &[&str] = &["enabled", "isActive", "active"];

/// Members of other hosts' entries that have no effect in `mgp.toml`, and are ignored without a note.
const IDLE: &[&str] = &["description", "name", "gallery", "version", "disabled", "source", "tools"];

/// Returns the entry of a server with its members renamed to the names that most hosts use.
pub(super) fn common(host: Host, server: &str, value: &Value) -> Value {
    let mut value = value.clone();
    let Some(members) = value.as_object_mut() else { return value };
    rename_time_limits(host, members);
    match host {
        Host::OpenCode => {
            rename(members, "environment", "env");
            members.remove("type");
            if let Some(Value::Array(words)) = members.get("command").cloned() {
                let mut words = words.into_iter();
                members.insert("command".to_owned(), words.next().unwrap_or_default());
                members.insert("args".to_owned(), words.collect());
            }
        }
        Host::Codex => {
            rename(members, "http_headers", "headers");
            // Rename the member, which contains only the name of an environment variable and not the token itself.
            if let Some(Value::String(name)) = members.remove("bearer_token_env_var") {
                members.insert(TOKEN_VARIABLE.to_owned(), name.into());
            }
        }
        // `httpUrl` means streamable HTTP. The new name `url` keeps this meaning, because mgp tries streamable HTTP
        // first with a `url`. Programs that are based on Gemini CLI have files of the same form.
        Host::GeminiCli | Host::QwenCode | Host::Generic if members.contains_key("httpUrl") => {
            rename(members, "httpUrl", "url");
        }
        Host::Goose => {
            for (from, to) in [("cmd", "command"), ("envs", "env"), ("uri", "url")] {
                rename(members, from, to);
            }
            for idle in ["bundled", "display_name", "timeout"] {
                members.remove(idle);
            }
            add_braces(members, &["url", "headers"], braced);
        }
        Host::Continue => take_headers(members),
        Host::VsCode => {
            for name in ["command", "args"] {
                members.get_mut(name).into_iter().for_each(with_home);
            }
        }
        Host::CopilotCli => {
            add_braces(members, &["command", "cwd", "env", "url", "headers"], braced);
            add_braces(members, &["args"], braced_or_kept);
        }
        Host::Droid => take_tools(members, server),
        // Move these members up: older entries of Zed have program, arguments and environment in one object, `command`.
        Host::Zed => {
            if let Some(Value::Object(command)) = members.get("command").cloned() {
                for (name, value) in command {
                    let name = if name == "path" { "command".to_owned() } else { name };
                    members.insert(name, value);
                }
            }
        }
        _ => {}
    }
    value
}

/// Replaces a `~` at the beginning of a path by the variable for the home folder, as VS Code does.
fn with_home(value: &mut Value) {
    match value {
        Value::String(text) => {
            let rest = text.strip_prefix('~');
            let is_path = |rest: &&str| rest.is_empty() || rest.starts_with(['/', '\\']);
            if let Some(rest) = rest.filter(is_path) {
                *text = format!("${{userHome}}{rest}");
            }
        }
        Value::Array(list) => list.iter_mut().for_each(with_home),
        _ => {}
    }
}

/// Writes the lists of tools of Droid as other hosts have them: without an empty list of allowed tools, which means all
/// tools, and with `read` for the full name `files___read`.
fn take_tools(members: &mut Map<String, Value>, server: &str) {
    members.retain(|name, value| {
        name != "enabledTools" || value.as_array().is_none_or(|list| !list.is_empty())
    });
    for list in ["enabledTools", "disabledTools"] {
        let tools = members.get_mut(list).and_then(Value::as_array_mut);
        for tool in tools.into_iter().flatten() {
            let short =
                tool.as_str().and_then(|tool| tool.strip_prefix(server)?.strip_prefix("___"));
            if let Some(short) = short.map(str::to_owned) {
                *tool = short.into();
            }
        }
    }
}

/// Moves the headers from `requestOptions`, where Continue has them, to the member `headers`.
fn take_headers(members: &mut Map<String, Value>) {
    let options = members.get_mut("requestOptions").and_then(Value::as_object_mut);
    let Some(options) = options else { return };
    let headers = options.remove("headers");
    if options.is_empty() {
        members.remove("requestOptions");
    }
    if let Some(headers) = headers {
        members.insert("headers".to_owned(), headers);
    }
}

/// Converts the list of servers in the settings of Continue to a table by name, which other hosts have.
pub(super) fn servers_by_name(mut settings: Value) -> Value {
    let Some(list) = settings["mcpServers"].as_array() else { return settings };
    let mut servers = Map::new();
    for (at, server) in list.iter().enumerate() {
        let name = server.get("name").or_else(|| server.get("uses")).and_then(Value::as_str);
        let mut name = name.unwrap_or("unnamed").to_owned();
        while servers.contains_key(&name) {
            name = format!("{name} {}", at + 1);
        }
        servers.insert(name, server.clone());
    }
    settings["mcpServers"] = servers.into();
    settings
}

/// Converts a file of Continue that contains the entry of a single server to the form of other hosts, a table of
/// servers by name. The server gets the name of the file. Returns other values unchanged.
pub(super) fn with_single_server(value: Value, file: &Path) -> Value {
    let is_single = value.get("mcpServers").is_none()
        && ["command", "url"].iter().any(|key| value.get(key).is_some());
    let Some(name) = file.file_stem().and_then(|name| name.to_str()).filter(|_| is_single) else {
        return value;
    };
    serde_json::json!({ "mcpServers": { name: value } })
}

fn rename(members: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = members.remove(from) {
        members.insert(to.to_owned(), value);
    }
}

/// Renames the time limits of an entry to the members that [`of_codex`] reads, each to the member with the same unit.
fn rename_time_limits(host: Host, members: &mut Map<String, Value>) {
    let is_ignored = |time: f64| host == Host::ClaudeCode && time < 1000.0;
    match host {
        Host::Cline | Host::Goose => rename_time(members, "timeout", TIMEOUT_SECONDS),
        Host::ClaudeCode | Host::CopilotCli | Host::GeminiCli | Host::Kiro | Host::QwenCode => {
            if members.get("timeout").and_then(Value::as_f64).is_some_and(is_ignored) {
                members.remove("timeout");
            }
            rename_time(members, "timeout", TIMEOUT_MS);
        }
        Host::Droid => {
            rename_time(members, "timeout", TIMEOUT_MS);
            rename_time(members, "connectTimeout", START_MS);
        }
        Host::Continue => rename_time(members, "connectionTimeout", START_MS),
        // In older files, `timeout` is a number, which limits mainly the request for the list of tools, so it is not
        // converted.
        Host::OpenCode => {
            if let Some(Value::Object(times)) = members.get_mut("timeout") {
                rename_time(times, "startup", START_MS);
                rename_time(times, "request", TIMEOUT_MS);
                let found = [START_MS, TIMEOUT_MS].map(|name| times.remove_entry(name));
                if times.is_empty() {
                    members.remove("timeout");
                }
                members.extend(found.into_iter().flatten());
            }
        }
        _ => {}
    }
}

/// Renames a time limit. A member whose value is not valid as a time limit here keeps its name, so that it is left out
/// later.
fn rename_time(members: &mut Map<String, Value>, from: &str, to: &str) {
    let time = members.get(from).and_then(Value::as_f64);
    // Accept up to three billion seconds, which is less than the maximum duration in a configuration.
    if time.is_some_and(|time| time > 0.0 && time <= 3e9) {
        rename(members, from, to);
    }
}

/// The members with the time limits of a start and of a tool call, one member for each unit. Codex has the first and
/// the last of these members; the time limits of other hosts are renamed to one of them.
const START_MS: &str = "startup_timeout_ms";
const TIMEOUT_MS: &str = "tool_timeout_ms";
const TIMEOUT_SECONDS: &str = "tool_timeout_sec";

/// The member that names the variable with the bearer token.
const TOKEN_VARIABLE: &str = "bearer_token_env_var";

/// The member with the names of variables whose values the host stores as secrets.
const SECRET_NAMES: &str = "env_keys";

/// Converts an entry of `mcpServers` or `servers`; an error is the reason why it cannot be imported.
pub(super) fn entry(
    value: &Value,
    meaning: &Meaning<'_>,
    findings: &mut Findings,
) -> Result<Entry, String> {
    let Some(members) = value.as_object() else { return Err("it is not an object".into()) };
    let has = |name: &str, flag: bool| members.get(name) == Some(&Value::Bool(flag));
    if has("disabled", true) || ENABLED.iter().any(|&name| has(name, false)) {
        return Err(SWITCHED_OFF.into());
    }
    let (mut entry, mut tools) = (Entry::default(), ToolLists::default());
    // Skip members with the value `null`, which some programs write for a missing value.
    for (name, value) in members.iter().filter(|(_, value)| !value.is_null()) {
        let mut map = |text: &str| mapped_in(name, text, meaning, findings);
        match name.as_str() {
            "command" => entry.command = Some(map(text(name, value)?)),
            "args" => {
                let list = value.as_array().ok_or("`args` is not a list")?;
                let args = list.iter().map(|arg| Ok(map(text(name, arg)?)));
                entry.args = args.collect::<Result<_, String>>()?;
            }
            "cwd" => entry.cwd = Some(map(text(name, value)?)),
            "env" => {
                entry.env.extend(texts(name, value, &mut map)?);
                findings.notes.extend(removed(value));
            }
            "url" | "serverUrl" => entry.url = Some(map(text(name, value)?)),
            "headers" => entry.headers.extend(texts(name, value, &mut map)?),
            TOKEN_VARIABLE => {
                let token = format!("Bearer {}", variable(text(name, value)?, NO_VARIABLE)?);
                entry.headers.insert("Authorization".to_owned(), token);
            }
            SECRET_NAMES => add_secrets(&mut entry, value, meaning, findings)?,
            "type" | "transport" => entry.transport = transport(text(name, value)?)?,
            "era" => entry.era = era(text(name, value)?)?,
            _ if of_codex(&mut entry, name, value)? || tools.read(name, value)? => {}
            _ => match need_of_host(name, value) {
                Some(reason) => findings.refuse(reason.to_owned()),
                None => findings.notes.extend(why_left_out(name, value)),
            },
        }
    }
    entry.tools = tools.limit().ok_or(SWITCHED_OFF)?;
    findings.notes.extend(notes_about(&entry));
    if let Some(reason) = findings.refusal.take() {
        return Err(reason);
    }
    // Do not set `cwd` for a file in the home folder, because mgp starts such a server in the home folder by default.
    if let (Some(_), Some(project)) = (&entry.command, meaning.project)
        && (entry.cwd.is_some() || !is_home(project))
    {
        entry.cwd = Some(folder_in(project, entry.cwd.as_deref()));
    }
    match (&entry.command, &entry.url) {
        (Some(_), Some(_)) => Err("it has a `command` and a `url`".into()),
        (None, None) if value["source"] == "extension" => Err(OF_EXTENSION.into()),
        (None, None) => Err(NO_TARGET.into()),
        _ => Ok(entry),
    }
}

/// Returns the reason why only the host can run a server; `None` if this member does not prevent the import.
fn need_of_host(name: &str, value: &Value) -> Option<&'static str> {
    match name {
        "envFile" => Some(ENV_FILE),
        "uses" => Some(HUB_BLOCK),
        "headersHelper" => Some(HEADERS_HELPER),
        "authProviderType" if value != "dynamic_discovery" => Some(HOST_LOGIN),
        "sandboxEnabled" if *value == Value::Bool(true) => Some(HOST_SANDBOX),
        _ => None,
    }
}

/// Returns a note about a member that is not imported; `None` for a member without effect on the server.
fn why_left_out(name: &str, value: &Value) -> Option<String> {
    let why = match name {
        "autoApprove" | "alwaysAllow" | "trust" => "what runs without asking is decided here",
        "auth" | "oauth" if value.is_object() => {
            "`mgp servers login` logs in; a client id of your own belongs in `auth` here"
        }
        "timeout" => "its meaning depends on the host; set `timeout` here",
        _ if IDLE.contains(&name) || ENABLED.contains(&name) => return None,
        _ => "it is not known here",
    };
    Some(format!("`{}` was left out: {why}", name.escape_debug()))
}

/// Returns the reference `${NAME}` to a variable; `wrong` is the error for a name that is not valid for a variable. The
/// name may come from an untrusted author, so it must not become a reference to a file, a command or a stored secret.
fn variable(name: &str, wrong: &str) -> Result<String, String> {
    if name_of(name) == name { Ok(format!("${{{name}}}")) } else { Err(wrong.into()) }
}

/// Reads a member that only Codex has, or a time limit that `rename_time_limits` renamed; returns `false` for any
/// other member.
fn of_codex(entry: &mut Entry, name: &str, value: &Value) -> Result<bool, String> {
    match name {
        "startup_timeout_sec" => entry.start_timeout = Some(time(name, value, 1.0)?),
        START_MS => {
            // Set this time only if no time in seconds is set, because a time in seconds has precedence.
            entry.start_timeout.get_or_insert(time(name, value, 1000.0)?);
        }
        TIMEOUT_SECONDS => entry.timeout = Some(time(name, value, 1.0)?),
        TIMEOUT_MS => entry.timeout = Some(time(name, value, 1000.0)?),
        "env_http_headers" => {
            for (header, value) in value.as_object().ok_or(NO_HEADER_VARIABLE)? {
                let name = value.as_str().ok_or(NO_HEADER_VARIABLE)?;
                entry.headers.insert(header.clone(), variable(name, NO_HEADER_VARIABLE)?);
            }
        }
        "env_vars" => {
            for value in value.as_array().ok_or(NO_INHERITED_VARIABLE)? {
                if value.get("source").is_some_and(|source| source != "local") {
                    return Err(REMOTE_VARIABLE.into());
                }
                let name = value.get("name").unwrap_or(value);
                let name = name.as_str().ok_or(NO_INHERITED_VARIABLE)?;
                variable(name, NO_INHERITED_VARIABLE)?;
                entry.pass_env.push(name.to_owned());
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Returns notes about the variables that the server inherits, and about the limit of its tools.
fn notes_about(entry: &Entry) -> Vec<String> {
    let mut notes = Vec::new();
    if !entry.pass_env.is_empty() {
        let names = entry.pass_env.join(", ");
        notes.push(format!("it inherits from the program that starts mgp: {names}"));
    }
    renew_tools_note(entry, &mut notes);
    notes
}

/// The beginning of the note about the limit of a server's tools.
const GRANTED: &str = "its tools are granted as there: ";

/// Replaces the note about the limit of a server's tools.
pub(super) fn renew_tools_note(entry: &Entry, notes: &mut Vec<String>) {
    notes.retain(|note| !note.starts_with(GRANTED));
    if entry.tools.is_all() {
        return;
    }
    // Point out a difference: hosts do not limit resources and prompts, but a grant of single tools here excludes them.
    let others = match entry.tools {
        ToolLimit::Only(_) => "; its resources and prompts are not granted",
        ToolLimit::Except(_) => "",
    };
    notes.push(format!("{GRANTED}{}{others}", entry.tools));
}

/// Adds environment variables whose values are secrets that the user must set.
fn add_secrets(
    entry: &mut Entry,
    names: &Value,
    meaning: &Meaning<'_>,
    findings: &mut Findings,
) -> Result<(), String> {
    for name in names.as_array().into_iter().flatten() {
        let name = text(SECRET_NAMES, name)?;
        if !valid_id(name) {
            return Err(NO_SECRET.into());
        }
        let reference = secret(name, meaning, findings);
        entry.env.entry(name.to_owned()).or_insert(reference);
    }
    Ok(())
}

/// Returns the working directory of a project's server; a relative `cwd` is relative to the folder of the project.
fn folder_in(project: &Path, cwd: Option<&str>) -> String {
    let project = escaped(&project.to_string_lossy());
    match cwd {
        None => project,
        Some(cwd) if Path::new(cwd).is_absolute() || cwd.starts_with(['~', '$']) => cwd.to_owned(),
        Some(cwd) => format!("{project}/{cwd}"),
    }
}

/// Returns the transport to write to `mgp.toml`; `None` if mgp infers it from the other members of the entry.
fn transport(word: &str) -> Result<Option<&'static str>, String> {
    match word {
        "stdio" | "local" | "remote" | "http" | "streamable-http" | "streamableHttp"
        | "streamable_http" => Ok(None),
        "sse" => Ok(Some("sse")),
        "builtin" | "platform" | "frontend" | "inline_python" => Err(PART_OF_HOST.into()),
        _ => Err("its transport is not known here".into()),
    }
}

fn era(word: &str) -> Result<Option<&'static str>, String> {
    match word {
        "auto" => Ok(None),
        "modern" => Ok(Some("modern")),
        "legacy" => Ok(Some("legacy")),
        _ => Err("its era is not known here".into()),
    }
}

/// Converts a number to a duration. `per_second` is the number of its units in a second: 1 for seconds, 1000 for
/// milliseconds.
fn time(name: &str, value: &Value, per_second: f64) -> Result<Duration, String> {
    let number = value.as_f64();
    let time = number.and_then(|number| Duration::try_from_secs_f64(number / per_second).ok());
    time.filter(|time| !time.is_zero()).ok_or_else(|| format!("`{name}` is not a length of time"))
}

fn text<'a>(name: &str, value: &'a Value) -> Result<&'a str, String> {
    value.as_str().ok_or_else(|| format!("`{name}` has something that is not a text"))
}

/// Returns a note for each variable with the value `null`, which makes an editor remove the variable.
fn removed(env: &Value) -> impl Iterator<Item = String> {
    let members = env.as_object().into_iter().flatten().filter(|(_, value)| value.is_null());
    members.map(|(name, _)| {
        format!("`env.{}` was left out: only its host can remove a variable", name.escape_debug())
    })
}

/// Returns the texts of an object. In an environment, variables that are `null` are left out.
fn texts(
    name: &str,
    value: &Value,
    map: &mut impl FnMut(&str) -> String,
) -> Result<BTreeMap<String, String>, String> {
    let members = value.as_object().ok_or_else(|| format!("`{name}` is not an object"))?;
    let kept = members.iter().filter(|(_, value)| name != "env" || !value.is_null());
    let each = kept.map(|(key, value)| {
        // Convert numbers and booleans to text, as a shell does.
        let value = match value {
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            value => map(text(name, value)?),
        };
        Ok((key.clone(), value))
    });
    each.collect()
}
