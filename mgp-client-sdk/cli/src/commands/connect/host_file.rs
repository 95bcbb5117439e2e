//! Reads from a host's file whether the host starts mgp, which other servers it starts, and which entries cannot be
//! imported.

use std::path::{Path, PathBuf};

use mgp_discovery::import::{ImportError, read as read_entries};

use super::super::import::read_servers;
use super::record::ENTRY;
use super::syntax::Syntax;
use super::{HostArg, HostTarget, read};
use crate::args::Global;
use crate::exit::{CliResult, Failure};
use crate::hosts::KnownHost;

/// The entry of mgp in a host's file, and the other servers in the file.
pub(in crate::commands) struct HostFile {
    /// The program that the host starts as mgp; `None` if the host does not start mgp.
    pub(in crate::commands) program: Option<PathBuf>,
    /// The other servers that the host starts by itself, if they can be imported.
    pub(in crate::commands) beside: Vec<String>,
    /// The entries that cannot be imported. Entries that are skipped on purpose, e.g. because they are switched off,
    /// are not in the list.
    pub(in crate::commands) refused: Vec<ImportError>,
}

/// Reads the file of a host; returns `None` if there is no such file.
pub(in crate::commands) fn host_file(
    global: &Global,
    host: KnownHost,
    file: &Path,
) -> CliResult<Option<HostFile>> {
    let Some(text) = read(file)? else { return Ok(None) };
    let syntax = Syntax::of(file);
    let target = HostTarget { host: HostArg::Known(host), file: None, project: false };
    let table = &target.table(syntax, &text);
    let unreadable = |reason| Failure::failed(format!("`{}`: {reason}", file.display()));
    let own = syntax.members(&text, table).map_err(unreadable)?;
    let entry = own.iter().find(|(name, _)| name == ENTRY).map(|(_, entry)| entry);
    let program = entry.map(|entry| {
        let entry: Option<serde_json::Value> = serde_json::from_str(entry).ok();
        // In a file of Goose, the program has the key `cmd`.
        let command =
            entry.as_ref().and_then(|entry| entry.get("command").or_else(|| entry.get("cmd")));
        let command = command.and_then(|command| command.get(0).unwrap_or(command).as_str());
        PathBuf::from(command.unwrap_or_default())
    });
    let import = read_servers(global, host, file, &text);
    let mut refused = import.map(|import| import.refused).unwrap_or_default();
    let beside = beside(syntax, &text, table, &refused).map_err(unreadable)?;
    refused.retain(|error| !error.is_intended());
    Ok(Some(HostFile { program, beside, refused }))
}

/// Returns the entries of a host's file that cannot be imported.
pub(super) fn refused(
    target: &HostTarget,
    file: &Path,
    text: &str,
    table: &[String],
) -> Vec<ImportError> {
    let read = read_entries(target.format(table), file, text);
    read.map(|import| import.refused).unwrap_or_default()
}

/// Returns the servers besides mgp in the text of a host's file, without the `refused` entries.
pub(super) fn beside(
    syntax: Syntax,
    text: &str,
    table: &[String],
    refused: &[ImportError],
) -> Result<Vec<String>, String> {
    let own = syntax.members(text, table)?;
    let is_taken = |name: &String, project: Option<&String>| {
        !refused.iter().any(|error| error.name == *name && error.project.as_ref() == project)
    };
    let mut beside: Vec<String> = own.into_iter().map(|(name, _)| name).collect();
    beside.retain(|name| name != ENTRY && is_taken(name, None));
    let projects = ["projects".to_owned()];
    for (folder, _) in syntax.members(text, &projects).unwrap_or_default() {
        let path = [&["projects".to_owned(), folder.clone()], table].concat();
        let mut own = syntax.members(text, &path).unwrap_or_default();
        own.retain(|(name, _)| is_taken(name, Some(&folder)));
        beside.extend(own.into_iter().map(|(name, _)| format!("{name} (in {folder})")));
    }
    Ok(beside)
}
