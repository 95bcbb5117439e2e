//! The command `mgp undo`: takes back the last change that mgp made to a host's file, byte for byte unless other parts
//! of the file have changed since.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use mgp_types::{PrivateFile, Sha256Hash, Timestamp};
use serde::{Deserialize, Serialize};

use super::record::{ENTRY, Record, Restored, is_same};
use super::syntax::Syntax;
use super::{HostTarget, read, write};
use crate::args::{ConfigArg, Global};
use crate::config_file;
use crate::exit::{CliResult, Failure};
use crate::operator::admit_edit;
use crate::output::{Output, Render, print};
use crate::replace_file::replace_file;
use crate::state;

/// The maximum number of remembered changes; each contains the whole file as it was before.
const MAX_CHANGES: usize = 20;

/// The maximum size of the file that stores the changes. The oldest changes are dropped to stay below it.
const MAX_BYTES: u64 = 16 << 20;

const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// `mgp undo`.
#[derive(Clone, Copy, Debug, Args)]
#[command(
    after_help = "Takes back the last `mgp setup`, `mgp connect` or `mgp disconnect`. What agents may use in mgp stays.\n\nExample:\n  mgp undo --list\n  mgp undo"
)]
pub(crate) struct Undo {
    /// List the changes that can be taken back, the last one first
    #[arg(long)]
    list: bool,
    /// Restore the file as it was even if the entry of mgp in it has changed since; a back-up is kept
    #[arg(long, conflicts_with = "list")]
    force: bool,
}

/// A run of a command that changes hosts' files. `mgp undo` reverts all changes of a run together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::commands) struct CommandRun {
    at: Timestamp,
    command: String,
}

impl CommandRun {
    pub(in crate::commands) fn of(command: &str) -> Self {
        Self { at: Timestamp::now(), command: command.to_owned() }
    }
}

/// A change of a host's file.
#[derive(Clone, Serialize, Deserialize)]
struct FileChange {
    #[serde(flatten)]
    run: CommandRun,
    file: PathBuf,
    /// The text before the change; `None` if there was no file.
    before: Option<String>,
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
        for row in &self.rows {
            let UndoRow { at, command, file, backup, differs } = row;
            if self.is_list {
                out.line(format!("{at}  mgp {command}  {}", file.display()));
                continue;
            }
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
        if !self.is_list && !self.rows.is_empty() {
            out.line(
                "next: restart the host; your servers and grants stay for the next `mgp setup`",
            );
        }
        if self.rows.is_empty() {
            out.line("no change can be taken back");
        }
    }
}

/// Stores a change that was made to a host's file, so that `mgp undo` can take it back.
pub(super) fn remember(
    global: &Global,
    run: CommandRun,
    file: &Path,
    (before, after): (Option<&str>, Option<&str>),
    record: Option<Record>,
    backup: Option<PathBuf>,
) -> CliResult {
    let store = store(global)?;
    let lock = store.lock(LOCK_TIMEOUT)?;
    let mut changes = read_all(&store)?;
    changes.push(FileChange {
        run,
        file: file.to_owned(),
        before: before.map(str::to_owned),
        after_sha256: after.map(digest),
        record,
        entry: after.and_then(|after| entry_in(file, after)).map(|found| found.entry),
        backup,
    });
    loop {
        let text = serde_json::to_vec(&changes)?;
        if changes.len() <= MAX_CHANGES && text.len() as u64 <= MAX_BYTES {
            return Ok(store.replace(&lock, &text)?);
        }
        changes.remove(0);
    }
}

pub(crate) async fn run(global: &Global, undo: &Undo) -> CliResult {
    let store = store(global)?;
    let lock = store.lock(LOCK_TIMEOUT)?;
    let mut changes = read_all(&store)?;
    if undo.list {
        let rows = changes.into_iter().rev().map(|change| change.row(None)).collect();
        return print(global, &UndoResult { rows, is_list: true });
    }
    let Some(last) = changes.last().map(|change| change.run.clone()) else {
        return Err(Failure::failed("mgp has changed no host's file that it could restore"));
    };
    let kept = changes.iter().rposition(|change| change.run != last).map_or(0, |at| at + 1);
    let plan = |change: &FileChange| if undo.force { Ok(None) } else { change.merged(global) };
    let mut merged = changes[kept..].iter().map(plan).collect::<CliResult<Vec<_>>>()?;
    admit_edit(global, &ConfigArg::default()).await?;
    let mut rows = Vec::new();
    while changes.len() > kept
        && let Some(change) = changes.pop()
    {
        let merged = merged.pop().flatten();
        let backup = change.take_back(merged.as_ref())?;
        Record::write(global, &change.file, change.record.clone())?;
        change.remove_backup();
        store.replace(&lock, &serde_json::to_vec(&changes)?)?;
        rows.push(UndoRow { differs: merged.map(|merged| merged.differs), ..change.row(backup) });
    }
    print(global, &UndoResult { rows, is_list: false })
}

impl FileChange {
    /// Returns the current text without this change if another program has changed the file since; otherwise `None`.
    ///
    /// Fails if the change cannot be separated from the later ones, e.g. because these include the entry of mgp itself.
    fn merged(&self, global: &Global) -> CliResult<Option<Restored>> {
        let now = read(&self.file)?;
        if now.as_deref().map(digest) == self.after_sha256 {
            return Ok(None);
        }
        let (file, command) = (self.file.display(), &self.run.command);
        let failed = |what: &str| {
            Failure::failed(format!(
                "{what} since `mgp {command}`; to take that back too: `mgp undo --force`, which keeps a back-up"
            ))
        };
        let changed = || failed(&format!("`{file}` was changed"));
        let is_connected = |text: &str| entry_in(&self.file, text).is_some();
        let now = now.ok_or_else(changed)?;
        // Only the change that first connected mgp can be taken out of a later text: other changes do not record what
        // they removed.
        if self.entry.is_none() || self.before.as_deref().is_some_and(is_connected) {
            return Err(changed());
        }
        let found = entry_in(&self.file, &now);
        let found = found.filter(|found| is_same(Some(&found.entry), self.entry.as_ref()));
        let found =
            found.ok_or_else(|| failed(&format!("the entry of mgp in `{file}` was changed")))?;
        let record = Record::read(global, &self.file)?.ok_or_else(changed)?;
        record.restore(found.syntax, &found.table, &now, true).map(Some).map_err(|_| changed())
    }

    /// Restores the file, or writes the merged text. Returns the path of a back-up of the replaced text; `None` if that
    /// text is exactly what mgp had written.
    fn take_back(&self, merged: Option<&Restored>) -> CliResult<Option<PathBuf>> {
        let file = &self.file;
        let text = merged.map_or(&self.before, |merged| &merged.text);
        match (text, read(file)?) {
            (Some(before), Some(now)) if self.after_sha256 == Some(digest(&now)) => {
                replace_file(file, before).map(|()| None).map_err(|error| {
                    Failure::failed(format!("`{}` cannot be written: {error}", file.display()))
                })
            }
            (Some(before), now) => write(file, now.as_deref(), before),
            (None, Some(now)) => {
                let is_ours = self.after_sha256 == Some(digest(&now));
                let backup =
                    (!is_ours).then(|| config_file::write_backup(file, &now)).transpose()?;
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
        let is_needed =
            self.record.as_ref().is_some_and(|kept| kept.before.as_ref() == Some(backup));
        let has = |path: &Path| fs::read_to_string(path).ok() == self.before;
        if !is_needed && self.before.is_some() && has(backup) && has(&self.file) {
            // A copy that remains does no harm.
            let _ = fs::remove_file(backup);
        }
    }

    fn row(&self, backup: Option<PathBuf>) -> UndoRow {
        let CommandRun { at, command } = self.run.clone();
        UndoRow { at, command, file: self.file.clone(), backup, differs: None }
    }
}

/// The entry of mgp in a host's file.
struct FoundEntry {
    syntax: Syntax,
    table: Vec<String>,
    /// The entry as JSON.
    entry: String,
}

fn entry_in(file: &Path, text: &str) -> Option<FoundEntry> {
    let syntax = Syntax::of(file);
    let table = HostTarget::of_file(file).table(syntax, text);
    let members = syntax.members(text, &table).ok()?;
    let (_, entry) = members.into_iter().find(|(name, _)| name == ENTRY)?;
    Some(FoundEntry { syntax, table, entry })
}

fn digest(text: &str) -> String {
    Sha256Hash::digest(text.as_bytes()).to_string()
}

fn store(global: &Global) -> CliResult<PrivateFile> {
    Ok(PrivateFile::new(state::create_folder(global)?.join("host-changes.json"), MAX_BYTES))
}

fn read_all(store: &PrivateFile) -> CliResult<Vec<FileChange>> {
    let Some(bytes) = store.read()? else { return Ok(Vec::new()) };
    serde_json::from_slice(&bytes).map_err(|error| {
        let path = store.path().display();
        Failure::failed(format!("`{path}` is damaged ({error}); move it away to go on without it"))
    })
}
