//! Checks the state folder: its mode, the store, the audit log, the API keys.

use std::fs;
use std::time::Duration;

use mgp_security::auth::{ApiKeys, FileKeys};
use mgp_security::{FolderError, Governance, LogError};
use tokio::time::timeout;

use super::report::{Check, Level};
use crate::args::Global;
use crate::output::plural;
use crate::state;

/// The time limit for verifying the audit log here; `mgp audit verify` has no limit.
const VERIFY_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) async fn check(global: &Global) -> Vec<Check> {
    let folder = match state::create_folder(global) {
        Ok(folder) => folder,
        Err(failure) => return vec![Check::new("state", Level::Fail, failure.to_string())],
    };
    let mut checks = Vec::new();
    let bytes: u64 = file_sizes(&folder).sum();
    let what = format!("{}, {} KB, private", folder.display(), bytes / 1000);
    checks.push(Check::new("state", Level::Ok, what));
    checks.push(match timeout(VERIFY_TIMEOUT, Governance::verify(&folder)).await {
        Ok(Ok(records)) => Check::new(
            "audit",
            Level::Ok,
            format!("{}, unchanged", plural(records, "record")),
        ),
        Ok(Err(FolderError::Empty(_))) => {
            Check::new("audit", Level::Ok, "no records yet")
        }
        Ok(Err(FolderError::Log(LogError::BadRecord(bad)))) if is_new(&folder) => {
            tracing::debug!(%bad, "no audit log yet");
            Check::new("audit", Level::Ok, "no records yet")
        }
        Ok(Err(error @ FolderError::State { .. })) => {
            Check::new("state", Level::Fail, error.to_string())
                .with_fix("restore the folder from a back-up, or move it away to start with an empty one")
        }
        Ok(Err(error)) => Check::new("audit", Level::Fail, error.to_string())
            .with_fix("keep the log as evidence, and set `dir = \"audit-2\"` below `[kernel.audit]` for a new one"),
        Err(_) => Check::new("audit", Level::Warn, "the log is too long to be verified here")
            .with_fix("run `mgp audit verify`"),
    });
    checks
}

fn is_new(folder: &std::path::Path) -> bool {
    fs::read_dir(folder.join("audit")).map_or(true, |mut entries| entries.next().is_none())
}

fn file_sizes(folder: &std::path::Path) -> impl Iterator<Item = u64> {
    let folders = [folder.to_owned(), folder.join("audit")];
    let entries = folders.into_iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    entries
        .flatten()
        .filter_map(|entry| entry.metadata().ok())
        .filter(fs::Metadata::is_file)
        .map(|metadata| metadata.len())
}

pub(super) async fn check_keys(global: &Global) -> Option<Check> {
    let file = state::folder(global).ok()?.join("keys.json");
    if !file.exists() {
        return None;
    }
    Some(match ApiKeys::open(FileKeys::new(&file)).await {
        Ok(keys) => Check::new("keys", Level::Ok, format!("{keys:?}")),
        Err(error) => Check::new("keys", Level::Fail, error.to_string()).with_fix(format!(
            "repair `{}`, or create new keys with `mgp keys add`",
            file.display()
        )),
    })
}
