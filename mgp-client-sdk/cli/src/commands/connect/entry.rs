//! The entry with which a host starts mgp.

use std::path::Path;

use mgp_discovery::import::Host;
use serde::Serialize;
use serde_json::Value;

use super::Connect;
use super::record::ENTRY;
use crate::args::Global;
use crate::exit::CliResult;
use crate::hosts::KnownHost;
use crate::state;

/// The entry of mgp in a host's file, in the order in which it is written.
#[derive(Default, Serialize)]
pub(super) struct HostEntry {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'static str>,
    /// The program; of `OpenCode` also the arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<Value>,
    /// The program in a file of Goose.
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

/// A call waits this many seconds for a person who confirms it.
const GOOSE_TIMEOUT: u32 = 600;

/// Builds the entry of mgp for the host's file.
pub(super) fn entry(global: &Global, connect: &Connect, agent: &str) -> CliResult<HostEntry> {
    let absolute = |path: &Path| -> CliResult<String> {
        Ok(std::path::absolute(path)?.to_string_lossy().into_owned())
    };
    // The path is absolute, because a host may have another PATH.
    let command = absolute(&std::env::current_exe()?)?;
    let mut args = vec!["serve".to_owned(), "--stdio".into(), "--agent".into(), agent.to_owned()];
    // Paths from this shell's environment are written into the entry, because a host may have another environment.
    let config = connect.config.named_file();
    let state = global.state.clone().or_else(state::folder_from_environment);
    for (name, path) in [("--config", config), ("--state", state)] {
        if let Some(path) = path {
            args.extend([name.to_owned(), absolute(&path)?]);
        }
    }
    Ok(HostEntry::new(connect.target.known().map(KnownHost::format), command, args))
}
