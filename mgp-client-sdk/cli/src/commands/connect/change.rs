//! The change of a host's file by `mgp connect`.

use std::path::{Path, PathBuf};

use mgp_discovery::import::Host;

use super::host_file::{beside, refused};
use super::present::{PresentServer, present, starts_mgp};
use super::record::{self, ENTRY, Record, TakenEntry};
use super::syntax::Syntax;
use super::text_file::{prepare, replace};
use super::undo::{ChangeList, CommandRun};
use super::{Connect, entry};
use crate::args::Global;
use crate::exit::{CliResult, Failure};
use crate::hosts::KnownHost;
use crate::replace_file::write_backup;

/// The planned change of a host's file, and the values that are needed to undo it.
pub(super) struct Change {
    /// The text of the file without the entry of mgp, and with all entries that the host itself had.
    base: String,
    /// `true` if `base` is byte for byte the file as it was before mgp was connected.
    is_exact: bool,
    pub(super) after: String,
    /// The entry of mgp in `after`, as JSON.
    entry: String,
    record: Option<Record>,
    pub(super) taken: Vec<TakenEntry>,
    /// The servers of the host's file that mgp's configuration has too.
    pub(super) present: Vec<PresentServer>,
    pub(super) beside: Vec<String>,
}

impl Change {
    /// Plans the change; fails if the file cannot be changed.
    pub(super) fn plan(
        global: &Global,
        connect: &Connect,
        file: &Path,
        text: Option<&str>,
        agent: &str,
    ) -> CliResult<Self> {
        let unchanged = |reason: String| {
            Failure::failed(format!("`{}` was not changed: {reason}", file.display()))
        };
        let now = text.unwrap_or_default();
        let syntax = Syntax::of(file);
        let table = &connect.target.table(syntax, now);
        let of_table = syntax.members(now, table).map_err(unchanged)?;
        let is_connected = of_table.iter().any(|(name, _)| name == ENTRY);
        // Read the record even if the host has removed the entry of mgp but not its file, because the record still has
        // the servers that mgp removed.
        let record = Record::read(global, file)?.filter(|_| text.is_some());
        // Plan the change from the file as it was before mgp was connected, so that connecting twice has the same
        // result as once.
        let starts_mgp = starts_mgp(global, &connect.target, file, now, table);
        let restored = record.as_ref().map(|record| record.restore(syntax, table, now, starts_mgp));
        let restored = restored.transpose().map_err(unchanged)?;
        let is_exact = restored.as_ref().is_some_and(|restored| restored.is_exact);
        let base = match restored {
            Some(restored) => restored.text.unwrap_or_default(),
            // Remove an entry of mgp that has no record: it was written by hand, or is in the records of another state
            // folder.
            None if is_connected && starts_mgp == Some(true) => {
                record::without_mgp(syntax, table, now).map_err(unchanged)?
            }
            None => now.to_owned(),
        };
        let present = present(global, connect, file, &base, table);
        let earlier = record.iter().flat_map(|record| &record.taken);
        let earlier = earlier.filter(|entry| is_connected || !entry.is_in(syntax, now));
        let mut entries: Vec<(Vec<String>, String)> =
            earlier.map(|entry| (entry.path.clone(), entry.name.clone())).collect();
        if connect.replace {
            entries.extend(present.iter().map(|one| (one.path.clone(), one.name.clone())));
        }
        // Also take an entry of another server with mgp's name out of the file; `mgp disconnect` puts it back.
        entries.push((table.clone(), ENTRY.to_owned()));
        let (bare, taken) = record::take(syntax, base.clone(), entries).map_err(unchanged)?;
        let is_own = |now: &str| record::is_own(record.as_ref(), now, starts_mgp);
        let own = of_table.iter().find(|(name, now)| name == ENTRY && is_own(now));
        let kept = own.map(|(_, own)| entry::kept_members(connect, file, own)).unwrap_or_default();
        let entry = serde_json::to_string_pretty(&entry::entry(global, connect, agent, kept)?)?;
        let after = syntax.put(&bare, table, ENTRY, &entry).map_err(unchanged)?;
        let mut refused = refused(global, &connect.target, file, &after, table);
        if refused.iter().any(|error| error.name == ENTRY && error.project.is_none()) {
            return Err(unchanged(reason_not_to_start(connect).to_owned()));
        }
        refused.retain(|error| !error.is_started());
        let beside = beside(syntax, &after, table, &refused).map_err(unchanged)?;
        Ok(Self { base, is_exact, after, entry, record, taken, present, beside })
    }

    /// Writes first a back-up in the folder of the host's file, then the records that `mgp undo` and `mgp disconnect`
    /// use, and the file last. So a command that is killed at any point leaves a file that can be restored.
    pub(super) fn write(
        self,
        global: &Global,
        run: CommandRun,
        file: &Path,
        text: Option<&str>,
    ) -> CliResult<Option<PathBuf>> {
        if text == Some(&*self.after) {
            return Ok(None);
        }
        let changes = ChangeList::lock(global)?;
        prepare(file, text)?;
        let unwritable = |error: std::io::Error| Failure::unwritable(file, &error);
        let backup = text.map(|text| write_backup(file, text)).transpose().map_err(unwritable)?;
        let is_base = text.unwrap_or_default() == self.base;
        let before = match self.record {
            _ if is_base => backup.clone(),
            Some(record) if self.is_exact => record.before,
            _ => Some(write_backup(file, &self.base).map_err(unwritable)?),
        };
        let previous = Record::read(global, file)?;
        let before = before.map(|path| (path, &*self.base));
        let record = Record::new(before, &self.after, self.entry, self.taken);
        let unwritten = run.clone();
        let apply = || -> CliResult {
            Record::write(global, file, Some(record))?;
            let texts = (text, Some(&*self.after));
            changes.remember(run, file, texts, previous.clone(), backup.clone())?;
            replace(file, text, &self.after)
        };
        if let Err(failure) = apply() {
            // Ignore an error: a record that stays does no harm, because the host's file is still in the state before
            // the change. In this case keep the back-up too, because the record names it.
            let forgotten = changes.forget(&unwritten, file);
            let restored = Record::write(global, file, previous);
            if let (Ok(()), Ok(()), Some(backup)) = (forgotten, restored, backup) {
                let _ = std::fs::remove_file(backup);
            }
            return Err(failure);
        }
        Ok(backup)
    }
}

/// Returns the reason why the host would not start mgp, although its file would have the entry.
fn reason_not_to_start(connect: &Connect) -> &'static str {
    match connect.target.known().map(KnownHost::format) {
        Some(Host::CopilotCli) => {
            "`disabledMcpServers` in its `settings.json` keeps the host from starting `mgp`; change that list, then try again"
        }
        _ => {
            "its `mcp.allowed` or `mcp.excluded` keeps the host from starting `mgp`; change that list, then try again"
        }
    }
}
