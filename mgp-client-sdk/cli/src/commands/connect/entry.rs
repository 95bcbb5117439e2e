//! Reads and writes the entry with which a host starts mgp.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use mgp_discovery::import::{self, Host};
use serde::Serialize;
use serde_json::{Map, Value};

use super::record::{ENTRY, files};
use super::{Connect, read};
use crate::args::Global;
use crate::commands::import::{is_own, option_of};
use crate::exit::CliResult;
use crate::hosts::{KnownHost, home};
use crate::socket_hello::DEFAULT_AGENT;
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

/// Builds the entry of mgp for the host's file.
pub(super) fn entry(global: &Global, connect: &Connect, agent: &str) -> CliResult<HostEntry> {
    let absolute = |path: &Path| -> CliResult<String> {
        Ok(std::path::absolute(path)?.to_string_lossy().into_owned())
    };
    // The path is absolute, because a host may have another PATH.
    let command = absolute(&this_program::path()?)?;
    let mut args = vec!["serve".to_owned(), "--stdio".into(), "--agent".into(), agent.to_owned()];
    // Paths from this shell's environment are written into the entry, because a host may have another environment.
    let earlier = connect.earlier.as_ref();
    let config = connect.config.named_file().or_else(|| earlier?.config.clone());
    let state = global.state.clone().or_else(state::folder_from_environment);
    let state = state.or_else(|| earlier?.state.clone());
    for (name, path) in [("--config", config), ("--state", state)] {
        if let Some(path) = path {
            args.extend([name.to_owned(), absolute(&path)?]);
        }
    }
    let mut entry = HostEntry::new(connect.target.known().map(KnownHost::format), command, args);
    let own = serde_json::to_value(&entry)?;
    let members = connect.earlier_members.clone().into_iter();
    entry.added = members.filter(|(name, _)| own.get(name).is_none()).collect();
    Ok(entry)
}

/// The program and the options with which a host's file starts mgp.
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

/// Returns the command and the arguments with which a host's file starts mgp; `None` if the file does not start mgp.
pub(in crate::commands) fn mgp_command(
    format: Host,
    file: &Path,
) -> CliResult<Option<(String, Vec<String>)>> {
    let Some(text) = read(file)? else { return Ok(None) };
    let mut servers = import::read(format, file, &text)?.servers.into_iter();
    let Some(own) = servers.find(|server| server.name == ENTRY) else { return Ok(None) };
    Ok(own.entry.command.map(|command| (command, own.entry.args)))
}

/// Returns the agents of the hosts that start mgp: the hosts of this user, and every host whose file `mgp connect` has
/// changed.
pub(in crate::commands) fn connected_agents(global: &Global) -> CliResult<BTreeSet<String>> {
    let home = home()?;
    let own = KnownHost::ALL.into_iter().map(|host| host.user_file(&home));
    let files: BTreeSet<PathBuf> = own.chain(files(global)?).collect();
    let agent = |file: PathBuf| {
        let format = KnownHost::from_file(&file).map_or(Host::Generic, KnownHost::format);
        // An entry whose configuration file cannot be read is ignored here; `mgp doctor` reports it.
        let (_, args) = mgp_command(format, &file).ok()??;
        let mut args = args.into_iter().skip_while(|argument| argument != "--agent");
        args.nth(1).or_else(|| Some(DEFAULT_AGENT.to_owned()))
    };
    Ok(files.into_iter().filter_map(agent).collect())
}
