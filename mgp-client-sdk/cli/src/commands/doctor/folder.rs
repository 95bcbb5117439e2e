//! The folder of the state: who may use it, the store, the log, the keys.
//!
//! Applies to: both.

use std::fs;
use std::time::Duration;

use mgp_security::auth::{ApiKeys, FileKeys};
use mgp_security::{FolderError, Governance, LogError};
use tokio::time::timeout;

use super::{Check, Level};
use crate::cli::Global;
use crate::output::many;
use crate::state;

/// How long the log is read; `mgp audit verify` takes the time it needs.
const READS: Duration = Duration::from_secs(10);

/// The folder, the store and the log.
pub(super) async fn state(global: &Global) -> Vec<Check> {
    let folder = match state::made(global) {
        Ok(folder) => folder,
        Err(failure) => return vec![Check::new("state", Level::Fail, failure.to_string())],
    };
    let mut checks = Vec::new();
    let bytes: u64 = files(&folder).sum();
    let what = format!("{}, {} KB, yours alone", folder.display(), bytes / 1000);
    checks.push(Check::new("state", Level::Ok, what));
    checks.push(match timeout(READS, Governance::verify(&folder)).await {
        Ok(Ok(records)) => Check::new(
            "audit",
            Level::Ok,
            format!("{}, as they were written", many(records, "record")),
        ),
        // Nothing was recorded yet.
        Ok(Err(FolderError::Empty(_))) => {
            Check::new("audit", Level::Ok, "nothing is on record yet")
        }
        Ok(Err(FolderError::Log(LogError::Bad(bad)))) if is_new(&folder) => {
            tracing::debug!(%bad, "no log yet");
            Check::new("audit", Level::Ok, "nothing is on record yet")
        }
        Ok(Err(error @ FolderError::State { .. })) => {
            Check::new("state", Level::Fail, error.to_string())
                .fix("move the folder away and begin anew, or bring it back from a back-up")
        }
        Ok(Err(error)) => Check::new("audit", Level::Fail, error.to_string())
            .fix("keep it as evidence, and go on with another log: `dir = \"audit-2\"` below `[kernel.audit]`"),
        Err(_) => Check::new("audit", Level::Warn, "the log is too long to be checked here")
            .fix("run `mgp audit verify`"),
    });
    checks
}

/// Whether no log was begun in the folder.
fn is_new(folder: &std::path::Path) -> bool {
    fs::read_dir(folder.join("audit")).map_or(true, |mut entries| entries.next().is_none())
}

fn files(folder: &std::path::Path) -> impl Iterator<Item = u64> {
    let folders = [folder.to_owned(), folder.join("audit")];
    let entries = folders.into_iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    entries
        .flatten()
        .filter_map(|entry| entry.metadata().ok())
        .filter(fs::Metadata::is_file)
        .map(|metadata| metadata.len())
}

/// The keys, where there are any.
pub(super) async fn keys(global: &Global) -> Option<Check> {
    let file = state::folder(global).ok()?.join("keys.json");
    if !file.exists() {
        return None;
    }
    Some(match ApiKeys::open(FileKeys::new(&file)).await {
        Ok(keys) => Check::new("keys", Level::Ok, format!("{keys:?}")),
        Err(error) => Check::new("keys", Level::Fail, error.to_string())
            .fix(format!("repair `{}`, or make new keys with `mgp keys add`", file.display())),
    })
}
