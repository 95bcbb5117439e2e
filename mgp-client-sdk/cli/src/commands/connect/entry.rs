//! Reads and writes a host's entry for mgp.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use mgp_discovery::Sources;
use mgp_discovery::import::{self, Entry, Host};
use serde::Serialize;
use serde_json::{Map, Value};

use super::Connect;
use super::record::{ENTRY, files};
use super::text_file::read;
use crate::args::Global;
use crate::commands::import::{is_own, option_of};
use crate::exit::CliResult;
use crate::hosts::{KnownHost, home};
use crate::socket_hello::{DEFAULT_AGENT, check_agent_name};
use crate::{state, this_program};

/// The entry of mgp in a host's file. The order of the fields is the order of the members in the file.
#[derive(Default, Serialize)]
pub(super) struct HostEntry {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'static str>,
    /// The program of the server; in a file of `OpenCode`, the program and its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<Value>,
    /// The program of the server in a file of Goose.
    #[serde(skip_serializing_if = "Option::is_none")]
    cmd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<[&'static str; 1]>,
    /// The time limit of a call in Goose, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<u32>,
    /// The members that the user or the host has added to the earlier entry.
    #[serde(flatten)]
    added: Map<String, Value>,
}

impl HostEntry {
    fn new(host: Option<Host>, command: String, args: Vec<String>) -> Self {
        match host {
            Some(Host::OpenCode) => Self {
                kind: Some("local"),
                command: Some(std::iter::once(command).chain(args).collect()),
                enabled: Some(true),
                ..Self::default()
            },
            Some(Host::Goose) => Self {
                kind: Some("stdio"),
                name: Some(ENTRY),
                cmd: Some(command),
                args: Some(args),
                enabled: Some(true),
                timeout: Some(GOOSE_TIMEOUT),
                ..Self::default()
            },
            host => {
                let is_copilot = host == Some(Host::CopilotCli);
                let kind = match host {
                    Some(Host::VsCode) => Some("stdio"),
                    _ => is_copilot.then_some("local"),
                };
                let tools = is_copilot.then_some(["*"]);
                let command = Some(command.into());
                Self { kind, command, args: Some(args), tools, ..Self::default() }
            }
        }
    }
}

/// The time limit of a call in Goose, in seconds. It includes the time that a person has to confirm the call.
const GOOSE_TIMEOUT: u32 = 600;

/// Returns the members of the existing entry of mgp that a new entry keeps, e.g. the time limits and approvals that the
/// user or the host has added. `mgp connect` also switches on an entry that the host had switched off. A file of a
/// project can come from other people, so none of its members is kept: `env` can change what mgp runs, `autoApprove`
/// ends the questions of the host.
pub(super) fn kept_members(connect: &Connect, file: &Path, entry: &str) -> Map<String, Value> {
    if !connect.target.is_of_user(file) {
        return Map::new();
    }
    let Ok(Value::Object(mut members)) = import::parse_json(entry) else { return Map::new() };
    if connect.earlier.is_none() {
        members.retain(|name, _| name != "disabled" && name != "enabled");
    }
    members
}

/// Builds the entry of mgp for the host's file. Adds the members of the existing entry that the new entry does not set
/// itself.
pub(super) fn entry(
    global: &Global,
    connect: &Connect,
    agent: &str,
    kept: Map<String, Value>,
) -> CliResult<HostEntry> {
    let absolute = |path: &Path| -> CliResult<String> {
        Ok(std::path::absolute(path)?.to_string_lossy().into_owned())
    };
    // Write an absolute path, because a host may have another `PATH` than this shell.
    let command = absolute(&this_program::path()?)?;
    let mut args = vec!["serve".to_owned(), "--stdio".into(), "--agent".into(), agent.to_owned()];
    // Write the paths that come from this shell's environment into the entry, because a host may have another
    // environment.
    let earlier = connect.earlier.as_ref();
    let config = connect.config.named_file().or_else(|| earlier?.config.clone());
    let state = global.state.clone().or_else(state::folder_from_environment);
    let state = state.or_else(|| earlier?.state.clone());
    let config_home = Sources::config_home().filter(|_| config.is_none());
    for (name, path) in [("--config", config), ("--state", state)] {
        if let Some(path) = path {
            args.extend([name.to_owned(), absolute(&path)?]);
        }
    }
    let host = connect.target.known().map(KnownHost::format);
    let mut entry = HostEntry::new(host, command, args);
    let own = serde_json::to_value(&entry)?;
    entry.added = kept.into_iter().filter(|(name, _)| own.get(name).is_none()).collect();
    if let Some(folder) = config_home {
        let name = match host {
            Some(Host::OpenCode) => "environment",
            Some(Host::Goose) => "envs",
            _ => "env",
        };
        let env = entry.added.entry(name).or_insert(Value::Null);
        if env.is_null() {
            *env = Map::new().into();
        }
        if let Some(env) = env.as_object_mut() {
            env.insert("XDG_CONFIG_HOME".to_owned(), absolute(&folder)?.into());
        }
    }
    Ok(entry)
}

/// The program and the options of a host's entry for mgp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EntryOptions {
    program: PathBuf,
    pub(super) agent: Option<String>,
    pub(super) config: Option<PathBuf>,
    pub(super) state: Option<PathBuf>,
}

impl EntryOptions {
    /// Reads the options in the text of a host's file; `None` if the file does not start mgp.
    pub(super) fn read(format: Host, file: &Path, text: &str) -> Option<Self> {
        let servers = import::read(format, file, text).ok()?.servers;
        let own = servers.iter().find(|server| is_own(server))?;
        let path = |name: &str| option_of(&own.entry, name).map(PathBuf::from);
        Some(Self {
            program: own.entry.command.as_deref()?.into(),
            agent: option_of(&own.entry, "--agent"),
            config: path("--config"),
            state: path("--state"),
        })
    }
}

/// Reads a host's file and returns its entry with mgp's name.
fn own_entry(format: Host, file: &Path) -> CliResult<Option<Entry>> {
    let Some(text) = read(file)? else { return Ok(None) };
    let mut servers = import::read(format, file, &text)?.servers.into_iter();
    Ok(servers.find(|server| server.name == ENTRY).map(|server| server.entry))
}

/// Returns the command and the arguments of the entry with mgp's name in a host's file; `None` if the file has no such
/// entry with a command.
pub(in crate::commands) fn mgp_command(
    format: Host,
    file: &Path,
) -> CliResult<Option<(String, Vec<String>)>> {
    let Some(Entry { command: Some(command), args, .. }) = own_entry(format, file)? else {
        return Ok(None);
    };
    // Undo the doubling of dollar signs: the reader of a host's file doubles each dollar sign outside of variables.
    let plain = |text: String| text.replace("$$", "$");
    Ok(Some((plain(command), args.into_iter().map(plain).collect())))
}

/// Returns the agents of the hosts that start mgp: the hosts of this user, and every host whose file `mgp connect` has
/// changed.
pub(in crate::commands) fn connected_agents(global: &Global) -> CliResult<BTreeSet<String>> {
    let home = home()?;
    let own = KnownHost::ALL.into_iter().map(|host| host.user_file(&home));
    let files: BTreeSet<PathBuf> = own.chain(files(global)?).collect();
    let agent = |file: PathBuf| {
        let format = KnownHost::from_file(&file).map_or(Host::Generic, KnownHost::format);
        // Skip a host's file that cannot be read; `mgp doctor` reports it.
        let entry = own_entry(format, &file).ok()?.filter(|entry| entry.command.is_some())?;
        let agent = option_of(&entry, "--agent").unwrap_or_else(|| DEFAULT_AGENT.to_owned());
        Some(agent).filter(|agent| check_agent_name(agent).is_ok())
    };
    Ok(files.into_iter().filter_map(agent).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_of_mgp_in_a_host_file_has_no_doubled_dollar_signs() {
        let folder = mgp_testkit::temp_dir();
        let file = folder.path().join("mcp.json");
        let text = r#"{"mcpServers": {"mgp": {"command": "/home/a$b/mgp", "args": ["serve", "--state=/s$1"]}}}"#;
        std::fs::write(&file, text).unwrap();
        let (command, args) = mgp_command(Host::Cursor, &file).unwrap().unwrap();
        assert_eq!(command, "/home/a$b/mgp");
        assert_eq!(args, ["serve", "--state=/s$1"]);
    }
}
