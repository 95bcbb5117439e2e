//! Reads from a host's file whether the host starts mgp, which other servers it starts, and which entries cannot be
//! imported.

use std::path::{Path, PathBuf};

use mgp_discovery::import::{ImportError, read as read_entries};
use serde_json::Value;

use super::super::import::read_servers;
use super::Connect;
use super::record::{ENTRY, program_of};
use super::syntax::Syntax;
use super::target::{HostArg, HostTarget};
use super::text_file::read;
use crate::args::Global;
use crate::exit::{CliResult, Failure};
use crate::hosts::KnownHost;
use crate::output::print_note;
use crate::state_option::shell_path_or;

/// The entry of mgp in a host's file, and the other servers in the file.
pub(in crate::commands) struct HostFile {
    /// The program that the host starts as mgp; `None` if the host does not start mgp.
    pub(in crate::commands) program: Option<PathBuf>,
    /// The other servers that the host starts by itself, if they can be imported.
    pub(in crate::commands) beside: Vec<String>,
    /// The entries that cannot be imported. Entries that are skipped on purpose, e.g. because they are switched off,
    /// are not in the list.
    pub(in crate::commands) refused: Vec<ImportError>,
    /// The reason why no server of the file can be imported, e.g. because it is too long.
    pub(in crate::commands) fault: Option<Failure>,
}

/// Reads the file of a host; returns `None` if the file does not exist.
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
        let program = program_of(entry);
        PathBuf::from(program.as_ref().and_then(Value::as_str).unwrap_or_default())
    });
    let (mut refused, fault) = match read_servers(global, host, file, &text) {
        Ok(import) => (import.refused, None),
        Err(failure) if failure.is_no_servers() => (Vec::new(), None),
        Err(failure) => (Vec::new(), Some(failure)),
    };
    let beside = beside(syntax, &text, table, &refused).map_err(unreadable)?;
    refused.retain(|error| !error.is_intended());
    Ok(Some(HostFile { program, beside, refused, fault }))
}

/// Returns the entries of a host's file that cannot be imported, or that settings in other files switch off.
pub(super) fn refused(
    global: &Global,
    target: &HostTarget,
    file: &Path,
    text: &str,
    table: &[String],
) -> Vec<ImportError> {
    let read = match target.known() {
        Some(host) => read_servers(global, host, file, text),
        None => read_entries(target.format(table), file, text).map_err(Failure::from),
    };
    read.map(|import| import.refused).unwrap_or_default()
}

/// The entry of a server in a host's file.
#[derive(PartialEq, Eq)]
pub(super) struct ServerEntry {
    /// The project that declares the server, if one file contains several projects.
    pub(super) project: Option<String>,
    pub(super) name: String,
    /// The value of the entry as JSON, which may contain comments.
    pub(super) value: String,
}

impl ServerEntry {
    /// Returns whether this is the entry with mgp's name.
    pub(super) fn is_mgp(&self) -> bool {
        self.project.is_none() && self.name == ENTRY
    }
}

/// Returns the entries of all servers in the text of a host's file.
pub(super) fn entries(
    syntax: Syntax,
    text: &str,
    table: &[String],
) -> Result<Vec<ServerEntry>, String> {
    let own = syntax.members(text, table)?.into_iter();
    let mut all: Vec<ServerEntry> =
        own.map(|(name, value)| ServerEntry { project: None, name, value }).collect();
    let projects = ["projects".to_owned()];
    for (folder, value) in syntax.members(text, &projects).unwrap_or_default() {
        // Read the value of the project alone, which is JSON in each syntax: a file can be long and have many projects.
        let own = Syntax::Json.members(&value, table).unwrap_or_default().into_iter();
        let project = || Some(folder.clone());
        all.extend(own.map(|(name, value)| ServerEntry { project: project(), name, value }));
    }
    Ok(all)
}

/// Returns the servers other than mgp in the text of a host's file, without the `refused` entries.
pub(super) fn beside(
    syntax: Syntax,
    text: &str,
    table: &[String],
    refused: &[ImportError],
) -> Result<Vec<String>, String> {
    let mut all = entries(syntax, text, table)?;
    let is_refused = |entry: &ServerEntry| {
        refused.iter().any(|error| error.name == entry.name && error.project == entry.project)
    };
    all.retain(|entry| !entry.is_mgp() && !is_refused(entry));
    let shown = all.into_iter().map(|ServerEntry { project, name, .. }| match project {
        Some(folder) => format!("{name} (in {folder})"),
        None => name,
    });
    Ok(shown.collect())
}

/// Prints a note if the file of a generic host lacks the key to which mgp is added: the host may read its servers from
/// another key.
pub(super) fn note_other_key(
    global: &Global,
    target: &HostTarget,
    file: &Path,
    text: Option<&str>,
) {
    let top = Syntax::of(file).members(text.unwrap_or_default(), &[]).unwrap_or_default();
    let has = |key: &str| top.iter().any(|(name, _)| name == key);
    if target.known().is_none() && !top.is_empty() && !has("mcpServers") && !has("servers") {
        let file = file.display();
        print_note(
            global,
            &format!(
                "`{file}` had no `mcpServers`, where mgp is added; a host that reads its servers under another name does not start mgp"
            ),
        );
    }
}

impl Connect {
    /// Returns the advice on how mgp takes over the servers that the host still starts by itself.
    pub(super) fn advice(&self, file: &Path) -> String {
        let agent = self.agent.as_ref().map(|agent| format!(" --agent {agent}"));
        let config = self.config.config.as_ref();
        let config = config.map(|file| format!(" --config {}", shell_path_or("CONFIG", file)));
        let options = agent.unwrap_or_default() + &config.unwrap_or_default();
        let host = self.target.known().map_or("generic", KnownHost::name);
        let (source, target) = if self.target.file.is_none() && !self.target.project {
            (host.to_owned(), host.to_owned())
        } else {
            let file = shell_path_or("FILE", file);
            let target = format!("{host} {file}");
            (file, target)
        };
        format!(
            "`mgp import {source} --apply{options}` copies those that mgp does not have yet, `mgp connect {target} --replace{options}` takes them out there"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "real time is measured")]
    fn the_servers_of_many_projects_are_read_in_one_pass() {
        let history = "x".repeat(1000);
        let project = |number: usize| {
            format!(r#""/p{number}": {{"history": "{history}", "mcpServers": {{"b": {number}}}}}"#)
        };
        let projects: Vec<String> = (0..1000).map(project).collect();
        let projects = projects.join(",\n");
        let text = format!(r#"{{"mcpServers": {{"a": 1}}, "projects": {{{projects}}}}}"#);
        let begin = Instant::now();
        let all = entries(Syntax::Json, &text, &["mcpServers".to_owned()]).unwrap();
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
        assert_eq!((all.len(), all[0].name.as_str(), all[0].value.as_str()), (1001, "a", "1"));
        let last = &all[1000];
        assert_eq!((last.name.as_str(), last.value.as_str()), ("b", "999"));
        assert_eq!(last.project.as_deref(), Some("/p999"));
    }
}
