//! The command `mgp undo`: takes back the last change that mgp made to a host's file, byte for byte unless other parts
//! of the file have changed since.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use mgp_types::{FileLock, PrivateFile, Timestamp};
use serde::{Deserialize, Serialize};

use super::record::{
    self, ENTRY, LOCK_TIMEOUT, MAX_BYTES, Record, Restored, TakenEntry, digest, is_same, read_all,
    state_file,
};
use super::syntax::Syntax;
use super::target::HostTarget;
use super::text_file::{check_unchanged, read, replace, write};
use crate::args::{ConfigArg, Global};
use crate::exit::{CliResult, Failure};
use crate::operator::admit_edit_of;
use crate::output::{Cell, Output, Render, print, print_note};
use crate::replace_file::write_backup;
use crate::state;

/// The maximum number of remembered changes; most contain the whole text of the file before the change.
const MAX_CHANGES: usize = 20;

/// The maximum size of a file's text that is stored with the change. A longer text is only in the back-up.
const MAX_STORED_BYTES: usize = 1 << 20;

/// `mgp undo`.
#[derive(Clone, Copy, Debug, Args)]
#[command(
    after_help = "Takes back the last `mgp setup`, `mgp connect` or `mgp disconnect`. Agents keep their access in mgp.\n\nExample:\n  mgp undo --list\n  mgp undo"
)]
pub(crate) struct Undo {
    /// List the changes that can be taken back, the last one first
    #[arg(long)]
    list: bool,
    /// Also restore a file whose entry of mgp has changed since; a back-up is kept
    #[arg(long, conflicts_with = "list")]
    force: bool,
}

/// A run of a command that changes hosts' files. `mgp undo` reverts all changes of a run together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::commands) struct CommandRun {
    at: Timestamp,
    command: String,
    /// The process id of the command, because several commands can run at the same time.
    #[serde(default)]
    process: u32,
}

impl CommandRun {
    pub(in crate::commands) fn of(command: &str) -> Self {
        Self { at: Timestamp::now(), command: command.to_owned(), process: std::process::id() }
    }
}

#[derive(Clone, Serialize, Deserialize)]
struct FileChange {
    #[serde(flatten)]
    run: CommandRun,
    file: PathBuf,
    /// The text before the change; `None` if there was no file, or if the text is only in the back-up.
    before: Option<String>,
    /// The SHA-256 of the text before the change, if that text is only in the back-up.
    #[serde(default)]
    before_sha256: Option<String>,
    /// The SHA-256 of the text after the change; `None` if the file was removed.
    after_sha256: Option<String>,
    /// The record of `mgp connect` about the file, as it was before the change.
    record: Option<Record>,
    /// The entry of mgp in the text after the change, as JSON.
    #[serde(default)]
    entry: Option<String>,
    /// The path of the copy of the text before the change.
    #[serde(default)]
    backup: Option<PathBuf>,
}

/// A change of a host's file, which `mgp undo --list` lists, or which `mgp undo` has taken back.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct UndoRow {
    /// The time of the change.
    at: Timestamp,
    /// The command that made the change.
    command: String,
    /// The host's file.
    file: PathBuf,
    /// The path of a copy of the file as it was before the change was taken back.
    #[serde(skip_serializing_if = "Option::is_none")]
    backup: Option<PathBuf>,
    /// The later changes by other programs, which the file keeps; absent if the file is byte for byte as it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    differs: Option<Vec<String>>,
}

/// The changes that can be taken back, the last one first; or the changes that this command took back.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct UndoResult {
    rows: Vec<UndoRow>,
    #[serde(skip)]
    is_list: bool,
}

impl Render for UndoResult {
    fn render(&self, out: &mut Output) {
        if self.is_list && !self.rows.is_empty() {
            let rows = self.rows.iter().map(|row| {
                let command = format!("mgp {}", row.command);
                [Cell::from(&row.at), command.into(), row.file.display().to_string().into()]
            });
            return out.table(["TIME", "COMMAND", "FILE"], rows);
        }
        for row in &self.rows {
            let UndoRow { at, command, file, backup, differs } = row;
            let shown = file.display();
            out.line(match differs {
                None => format!("{shown} is as it was before `mgp {command}` of {at}"),
                Some(_) => {
                    format!("what `mgp {command}` of {at} changed in {shown} was taken back")
                }
            });
            differs.iter().flatten().for_each(|difference| out.line(difference));
            if let Some(backup) = backup {
                out.line(format!("the file of a moment ago is in {}", backup.display()));
            }
        }
        if !self.rows.is_empty() {
            out.hint(
                "next: restart the host; your servers and grants stay for the next `mgp setup`",
            );
        }
        if self.rows.is_empty() {
            out.line("there is no change to take back");
        }
    }
}

/// The stored list of changes of hosts' files, which this command has locked.
///
/// A command keeps the lock from its check of a host's file until the file and all records about it are written.
/// Otherwise another command could remove a record that the file needs, or take a change back before it is made.
pub(super) struct ChangeList {
    store: PrivateFile,
    lock: FileLock,
}

impl ChangeList {
    /// Locks the list; waits up to [`LOCK_TIMEOUT`] while another command changes a host's file.
    pub(super) fn lock(global: &Global) -> CliResult<Self> {
        state::create_folder(global)?;
        let store = store(global)?;
        let lock = store.lock(LOCK_TIMEOUT)?;
        Ok(Self { store, lock })
    }

    fn read(&self) -> CliResult<Vec<FileChange>> {
        read_all(&self.store)
    }

    fn replace(&self, changes: &[FileChange]) -> CliResult {
        Ok(self.store.replace(&self.lock, &serde_json::to_vec(changes)?)?)
    }

    /// Stores a change that is about to be made, or was made, to a host's file, so that `mgp undo` can take it back.
    pub(super) fn remember(
        &self,
        run: CommandRun,
        file: &Path,
        (before, after): (Option<&str>, Option<&str>),
        record: Option<Record>,
        backup: Option<PathBuf>,
    ) -> CliResult {
        let mut changes = self.read()?;
        let is_long = |text: &str| backup.is_some() && text.len() > MAX_STORED_BYTES;
        changes.push(FileChange {
            run,
            file: file.to_owned(),
            before: before.filter(|text| !is_long(text)).map(str::to_owned),
            before_sha256: before.filter(|text| is_long(text)).map(digest),
            after_sha256: after.map(digest),
            record,
            entry: after.and_then(|after| entry_in(file, after)).map(|found| found.entry),
            backup,
        });
        loop {
            let text = serde_json::to_vec(&changes).map_err(|error| {
                let file = file.display();
                Failure::failed(format!(
                    "the change of `{file}` cannot be recorded: {error}; use folders with UTF-8 names"
                ))
            })?;
            if changes.len() <= MAX_CHANGES && text.len() as u64 <= MAX_BYTES {
                return Ok(self.store.replace(&self.lock, &text)?);
            }
            // Forget the oldest change, so that the stored list stays within its limits.
            changes.remove(0);
        }
    }

    /// Removes the change of a file from the list, because the command could not write the file.
    pub(super) fn forget(&self, run: &CommandRun, file: &Path) -> CliResult {
        let mut changes = self.read()?;
        changes.retain(|change| change.run != *run || change.file != file);
        self.replace(&changes)
    }
}

pub(crate) async fn run(global: &Global, undo: &Undo) -> CliResult {
    let changes: Vec<FileChange> = read_all(&store(global)?)?;
    if undo.list {
        let rows = changes.into_iter().rev().map(|change| change.row(None)).collect();
        return print(global, &UndoResult { rows, is_list: true });
    }
    let no_change = || Failure::failed("there is no host's file to restore");
    if changes.is_empty() {
        return Err(no_change());
    }
    // Ask for the proof before reading the files, because hosts may change them while the person types the passphrase.
    admit_edit_of(global, &ConfigArg::default().file_to_edit()?).await?;
    let list = ChangeList::lock(global)?;
    let mut changes = list.read()?;
    let last = changes.last().map(|change| change.run.clone()).ok_or_else(no_change)?;
    let kept = changes.iter().rposition(|change| change.run != last).map_or(0, |at| at + 1);
    let (mut rows, mut failures) = (Vec::new(), Vec::new());
    // Continue after a failure: the change of a file that cannot be restored stays in the list, and the other files are
    // still restored.
    for at in (kept..changes.len()).rev() {
        match changes[at].undo(global, undo.force) {
            Ok(row) => {
                rows.push(row);
                changes.remove(at);
                list.replace(&changes)?;
            }
            Err(failure) => failures.push(failure),
        }
    }
    let failed = failures.pop();
    if failed.is_none() || !rows.is_empty() {
        print(global, &UndoResult { rows, is_list: false })?;
    }
    for failure in failures {
        print_note(global, &format!("mgp: {failure}"));
    }
    failed.map_or(Ok(()), Err)
}

/// The plan to take a change of a host's file back.
struct UndoPlan {
    /// The text of the file when the plan was made; `None` if there was no file.
    now: Option<String>,
    /// The text of the file before the change.
    before: Option<String>,
    /// The text without the change, if another program has changed the file since.
    merged: Option<Restored>,
}

impl FileChange {
    /// Writes the file as it was before this change, and restores what mgp had recorded about that file.
    fn undo(&self, global: &Global, is_forced: bool) -> CliResult<UndoRow> {
        let plan = self.plan(global, is_forced)?;
        // Fail before the host's file is written if the records are damaged.
        Record::read(global, &self.file)?;
        let backup = self.write(&plan)?;
        Record::write(global, &self.file, self.record.clone())?;
        self.remove_backup();
        let differs = plan.merged.map(|merged| merged.differs);
        Ok(UndoRow { differs, ..self.row(backup) })
    }

    /// Returns the plan to take this change back. With `is_forced`, later changes of the file are taken back too, if
    /// this change cannot be separated from them.
    fn plan(&self, global: &Global, is_forced: bool) -> CliResult<UndoPlan> {
        let (now, before) = (read(&self.file)?, self.before()?);
        // The command may have been killed after it recorded the change. The file is then still as it was before, and
        // needs no edit.
        let is_unwritten = now == before;
        if is_unwritten || now.as_deref().map(digest) == self.after_sha256 {
            return Ok(UndoPlan { now, before, merged: None });
        }
        let merged = match self.merged(global, now.as_deref(), before.as_deref()) {
            Err(failure) if !is_forced => return Err(failure),
            merged => merged.ok(),
        };
        Ok(UndoPlan { now, before, merged })
    }

    /// Returns the text before the change; `None` if there was no file.
    fn before(&self) -> CliResult<Option<String>> {
        let (Some(sha256), Some(backup)) = (&self.before_sha256, &self.backup) else {
            return Ok(self.before.clone());
        };
        let text = fs::read_to_string(backup).ok().filter(|text| digest(text) == *sha256);
        text.map(Some).ok_or_else(|| {
            let (file, backup) = (self.file.display(), backup.display());
            Failure::failed(format!(
                "`{file}` cannot be restored, because its copy `{backup}` was changed or removed"
            ))
        })
    }

    /// Returns the current text of a file without this change.
    ///
    /// Fails if the change cannot be separated from later changes, e.g. because they include the entry of mgp itself.
    fn merged(
        &self,
        global: &Global,
        now: Option<&str>,
        before: Option<&str>,
    ) -> CliResult<Restored> {
        let (file, command) = (self.file.display(), &self.run.command);
        let failed = |what: &str| {
            Failure::failed(format!(
                "{what} since `mgp {command}`; to take that back too: `mgp undo --force`, which keeps a back-up"
            ))
        };
        let changed = || failed(&format!("`{file}` was changed"));
        let now = now.ok_or_else(changed)?;
        // Fail for a change that disconnected mgp: it does not record which entries it restored, so it cannot be
        // separated from later changes.
        if self.entry.is_none() {
            return Err(changed());
        }
        let found = entry_in(&self.file, now);
        let found = found.filter(|found| is_same(Some(&found.entry), self.entry.as_ref()));
        let found =
            found.ok_or_else(|| failed(&format!("the entry of mgp in `{file}` was changed")))?;
        let mut record = Record::read(global, &self.file)?.ok_or_else(changed)?;
        if let Some(before) = before {
            record = self.record_since(record, before).map_err(|_| changed())?;
        }
        record.restore(found.syntax, &found.table, now, Some(true)).map_err(|_| changed())
    }

    /// Returns a record of the entries that this change alone removed from the file. If mgp was connected before, these
    /// are the earlier entry of mgp, and the removed entries that the earlier record does not have.
    fn record_since(&self, record: Record, before: &str) -> Result<Record, String> {
        let Some(FoundEntry { syntax, table, .. }) = entry_in(&self.file, before) else {
            return Ok(record);
        };
        let own = [(table.clone(), ENTRY.to_owned())];
        let (_, mut taken) = record::take(syntax, before.to_owned(), own)?;
        let earlier = self.record.iter().flat_map(|earlier| &earlier.taken);
        let known: Vec<_> = earlier
            .map(|entry| (entry.path.clone(), entry.name.clone()))
            .chain([(table, ENTRY.to_owned())])
            .collect();
        let is_new =
            |entry: &TakenEntry| !known.contains(&(entry.path.clone(), entry.name.clone()));
        taken.extend(record.taken.into_iter().filter(is_new));
        let before = self.backup.clone().map(|backup| (backup, before));
        Ok(Record::new(before, "", self.entry.clone().unwrap_or_default(), taken))
    }

    /// Restores or removes the file, or writes the merged text. Returns the path of a back-up of the replaced text;
    /// `None` if that text is exactly what mgp had written, or if no text was replaced.
    fn write(&self, plan: &UndoPlan) -> CliResult<Option<PathBuf>> {
        let file = &self.file;
        let text = plan.merged.as_ref().map_or(&plan.before, |merged| &merged.text);
        check_unchanged(file, plan.now.as_deref())?;
        let unwritable = |error: std::io::Error| Failure::unwritable(file, &error);
        match (text, &plan.now) {
            (Some(before), Some(now)) if self.after_sha256 == Some(digest(now)) => {
                replace(file, Some(now), before).map(|()| None)
            }
            (Some(before), now) => write(file, now.as_deref(), before),
            (None, Some(now)) => {
                let is_ours = self.after_sha256 == Some(digest(now));
                let backup = (!is_ours).then(|| write_backup(file, now)).transpose();
                let backup = backup.map_err(unwritable)?;
                fs::remove_file(file).map(|()| backup).map_err(|error| {
                    Failure::failed(format!("`{}` cannot be removed: {error}", file.display()))
                })
            }
            (None, None) => Ok(None),
        }
    }

    /// Removes the back-up of this change if the file now has the same text, unless a record still needs the back-up.
    fn remove_backup(&self) {
        let Some(backup) = &self.backup else { return };
        let Ok(Some(before)) = self.before() else { return };
        let is_needed =
            self.record.as_ref().is_some_and(|kept| kept.before.as_ref() == Some(backup));
        let has = |path: &Path| fs::read_to_string(path).is_ok_and(|text| text == before);
        if !is_needed && has(backup) && has(&self.file) {
            // Ignore an error: a back-up that stays does no harm.
            let _ = fs::remove_file(backup);
        }
    }

    fn row(&self, backup: Option<PathBuf>) -> UndoRow {
        let CommandRun { at, command, .. } = self.run.clone();
        UndoRow { at, command, file: self.file.clone(), backup, differs: None }
    }
}

/// The entry of mgp in a host's file.
struct FoundEntry {
    syntax: Syntax,
    table: Vec<String>,
    entry: String,
}

fn entry_in(file: &Path, text: &str) -> Option<FoundEntry> {
    let syntax = Syntax::of(file);
    let table = HostTarget::of_file(file).table(syntax, text);
    let members = syntax.members(text, &table).ok()?;
    let (_, entry) = members.into_iter().find(|(name, _)| name == ENTRY)?;
    Some(FoundEntry { syntax, table, entry })
}

/// Returns the file of the state folder that stores the changes of hosts' files.
fn store(global: &Global) -> CliResult<PrivateFile> {
    state_file(global, "host-changes.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_displaces_no_other_change_and_is_restored_from_its_backup() {
        let folder = mgp_testkit::temp_dir();
        let global = Global { state: Some(folder.path().join("state")), json: false, verbose: 0 };
        let (file, run) = (folder.path().join("mcp.json"), CommandRun::of("setup"));
        let long = format!("{{\"history\": \"{}\"}}", "x".repeat(17 << 20));
        let backup = write_backup(&file, &long).unwrap();
        for (before, backup) in [("{}", None), (&*long, Some(backup.clone()))] {
            let list = ChangeList::lock(&global).unwrap();
            list.remember(run.clone(), &file, (Some(before), Some("{}")), None, backup).unwrap();
        }
        let changes: Vec<FileChange> = read_all(&store(&global).unwrap()).unwrap();
        assert_eq!(changes.len(), 2);
        assert!(changes[1].before().unwrap().as_deref() == Some(&*long), "byte for byte");
        fs::write(&backup, "other").unwrap();
        let refused = changes[1].before().unwrap_err().to_string();
        assert!(refused.ends_with("was changed or removed"), "{refused}");
    }
}
