//! The command `mgp disconnect`: restores a host's file so that the host starts its own servers again.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::present::starts_mgp;
use super::record::{self, ENTRY, Record, Restored};
use super::syntax::Syntax;
use super::target::HostTarget;
use super::text_file::{check_unchanged, read, replace};
use super::undo::{ChangeList, CommandRun};
use crate::args::{ConfigArg, Global};
use crate::exit::{CliResult, Failure};
use crate::operator::admit_edit_of;
use crate::output::{Output, Render, print};
use crate::replace_file::{backup_line, write_backup};

/// `mgp disconnect`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Undoes `mgp connect`, also with `--replace`: restores the file, byte for byte if nothing else has changed it.\n\nExample:\n  mgp disconnect claude-code"
)]
pub(crate) struct Disconnect {
    #[command(flatten)]
    target: HostTarget,
}

/// The result of `mgp disconnect`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct DisconnectResult {
    /// The host's file.
    file: PathBuf,
    /// `true` if the file is as it was before `mgp connect`, byte for byte.
    exact: bool,
    /// Servers that the host starts again.
    restored: Vec<String>,
    /// The differences from the file as it was before `mgp connect`.
    differs: Vec<String>,
    /// The path of a copy of the file as it was before this change.
    #[serde(skip_serializing_if = "Option::is_none")]
    backup: Option<PathBuf>,
    /// `true` if the entry with mgp's name starts another program, so that it stays.
    #[serde(skip)]
    is_other: bool,
}

impl Render for DisconnectResult {
    fn render(&self, out: &mut Output) {
        let file = self.file.display();
        if self.exact {
            out.line(format!("{file} is as it was before mgp was connected"));
        } else if self.is_other {
            out.line(format!("{file} does not start mgp"));
        } else {
            out.line(format!("mgp was taken out of {file}"));
        }
        if !self.restored.is_empty() {
            out.line(format!("the host starts again: {}", self.restored.join(", ")));
        }
        for difference in &self.differs {
            out.line(difference);
        }
        if let Some(backup) = &self.backup {
            out.line(backup_line(backup));
        }
        out.hint("next: restart the host; its agent keeps its access in mgp: `mgp access matrix`");
    }
}

pub(crate) async fn run(global: &Global, disconnect: &Disconnect) -> CliResult {
    let file = disconnect.target.path()?;
    let shown = file.display();
    let not_connected = || Failure::failed(format!("`{shown}` does not start mgp"));
    let now = read(&file)?.ok_or_else(not_connected)?;
    let unchanged =
        |reason: String| Failure::failed(format!("`{shown}` was not changed: {reason}"));
    let syntax = Syntax::of(&file);
    let table = &disconnect.target.table(syntax, &now);
    let servers = syntax.members(&now, table).map_err(unchanged)?;
    let record = Record::read(global, &file)?;
    if record.is_none() && servers.iter().all(|(name, _)| name != ENTRY) {
        return Err(not_connected());
    }
    let starts_mgp = starts_mgp(global, &disconnect.target, &file, &now, table);
    let restored = match &record {
        Some(record) => record.restore(syntax, table, &now, starts_mgp).map_err(unchanged)?,
        None if starts_mgp != Some(true) => {
            let reason = format!("its entry `{ENTRY}` starts another program, or cannot be read");
            return Err(unchanged(reason));
        }
        None => Restored {
            text: Some(record::without_mgp(syntax, table, &now).map_err(unchanged)?),
            is_exact: false,
            differs: vec![
                "how the file was before is not known here, so nothing else was restored"
                    .to_owned(),
            ],
        },
    };
    let is_there = |entry: &&record::TakenEntry| {
        restored.text.as_deref().is_some_and(|text| entry.is_in(syntax, text))
    };
    let taken = record.iter().flat_map(|record| &record.taken);
    let names = taken.filter(is_there).map(|entry| entry.name.clone()).collect();
    admit_edit_of(global, &ConfigArg::default().file_to_edit()?).await?;
    let Restored { text, is_exact, differs } = restored;
    let backup = write_restored(global, &file, &now, text.as_deref(), record)?;
    let done = DisconnectResult {
        file: file.clone(),
        exact: is_exact,
        restored: names,
        differs,
        backup,
        is_other: starts_mgp == Some(false),
    };
    print(global, &done)
}

/// Writes the text without mgp to a host's file, or removes a file that mgp has created; returns the path of a back-up.
///
/// The data that `mgp undo` needs is stored before the file is written, and the record of the file is removed last. So
/// a command that is killed at any point leaves a file that can be restored.
fn write_restored(
    global: &Global,
    file: &Path,
    now: &str,
    restored: Option<&str>,
    record: Option<Record>,
) -> CliResult<Option<PathBuf>> {
    let changes = ChangeList::lock(global)?;
    check_unchanged(file, Some(now))?;
    let is_changed = restored.is_some_and(|text| text != now);
    let backup = is_changed.then(|| write_backup(file, now)).transpose();
    let backup = backup.map_err(|error| Failure::unwritable(file, &error))?;
    let run = CommandRun::of("disconnect");
    changes.remember(run.clone(), file, (Some(now), restored), record, backup.clone())?;
    let apply = || -> CliResult {
        match restored {
            Some(text) if is_changed => replace(file, Some(now), text),
            Some(_) => Ok(()),
            None => {
                check_unchanged(file, Some(now))?;
                fs::remove_file(file).map_err(|error| {
                    Failure::failed(format!("`{}` cannot be removed: {error}", file.display()))
                })
            }
        }
    };
    if let Err(failure) = apply() {
        // Ignore an error: a change that stays in the list of `mgp undo` does no harm, because the host's file is still
        // in the state before the change.
        let _ = changes.forget(&run, file);
        return Err(failure);
    }
    Record::write(global, file, None)?;
    Ok(backup)
}
