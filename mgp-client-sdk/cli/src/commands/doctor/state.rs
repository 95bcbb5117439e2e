//! Checks the state folder: its mode, the store, the audit log, the API keys.

use std::fs::{self, DirEntry, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mgp_discovery::SecretFile;
use mgp_lifecycle::Transactions;
use mgp_security::auth::{ApiKeys, FileKeys};
use mgp_security::{FolderError, Governance, LogError, RecordFlaw};
use mgp_server_sdk::EventHub;
use mgp_toolindex::{History, ToolIndex};
use mgp_types::store::{Db, MemoryStore, Store};
use tokio::time::timeout;

use super::report::{Check, Level};
use crate::args::Global;
use crate::commands::audit::{CHANGES_LOST, RECORDS_LOST, count_lost};
use crate::exit::Failure;
use crate::output::plural;
use crate::replace_file::create_private;
use crate::state_option::shell_path_or;
use crate::{lock, state};

/// The time limit for verifying the audit log here; `mgp audit verify` has no limit.
const VERIFY_TIMEOUT: Duration = Duration::from_secs(10);

/// The age up to which a loss of audit records is still reported.
const LOSS_REPORTED: Duration = Duration::from_hours(30 * 24);

/// The remedy for a state that cannot be read.
const RESTORE: &str =
    "restore the folder from a back-up, or move it away to start with an empty one";

/// The remedy for an audit log that cannot be read.
const UNREAD_LOG: &str = "correct that; if the files are lost, set `dir = \"audit-2\"` below `[kernel.audit]` for a new log";

/// The remedy for an audit log that was changed.
const CHANGED_LOG: &str = "keep the log as evidence, set `dir = \"audit-2\"` below `[kernel.audit]` for a new one, and start the kernel, e.g. with `mgp servers ls`";

/// Checks the state folder without creating it; returns the checks, and the store if the folder can be used.
///
/// The store is empty if the folder does not exist yet.
pub(super) async fn check(global: &Global) -> (Vec<Check>, Option<Arc<dyn Store>>) {
    let failed = |failure: Failure| (vec![unusable(&failure.to_string())], None);
    let folder = match state::folder(global) {
        Ok(folder) => folder,
        Err(failure) => return failed(failure),
    };
    let exists = match state::check_folder(&folder) {
        Ok(exists) => exists,
        Err(failure) => return failed(failure),
    };
    if let Err(error) = try_to_write(&folder) {
        let what = format!("`{}` cannot be written: {error}", folder.display());
        let check = Check::new("state", Level::Fail, what);
        return (
            vec![check.with_fix("correct that, or name another folder with --state DIR")],
            None,
        );
    }
    if !exists {
        return (vec![not_created(&folder)], Some(Arc::new(MemoryStore::new())));
    }
    if !folder.join("state.db").exists() {
        // Do not create the database, because a new one would hide that it was lost.
        return (check_folder(&folder).await, Some(Arc::new(MemoryStore::new())));
    }
    match state::db(global).await {
        Ok(db) => {
            let mut checks = check_folder(&folder).await;
            checks.extend(check_database(&db, &folder.join("state.db")).await);
            (checks, Some(Arc::new(db)))
        }
        // If a file belongs to another user, that is the reason, and its check names a better remedy.
        Err(failure) => match check_access(&folder) {
            Some(check) => (vec![check], None),
            None => failed(failure),
        },
    }
}

/// Reports damage of the database that keeps a kernel from starting, or from doing everything that is configured.
async fn check_database(db: &Db, file: &Path) -> Vec<Check> {
    let entries = Governance::check_entries(db).await.map_err(|error| error.to_string());
    let transactions = Transactions::open(Arc::new(db.clone())).await;
    let transactions = transactions.map(drop).map_err(|error| error.to_string());
    let events = EventHub::check_db(db).await;
    let events = events.map_err(|error| format!("the stored events are damaged: {error}"));
    let failures = [entries, transactions, events].into_iter().filter_map(Result::err);
    let checks = failures.map(|error| unusable(&format!("`{}`: {error}", file.display())));
    checks.chain(check_search(db, file).await).collect()
}

/// Reports damage of the tables for searches; a kernel starts in spite of such damage.
async fn check_search(db: &Db, file: &Path) -> impl Iterator<Item = Check> {
    let index = ToolIndex::builder().open_read_only(db.clone()).await;
    let index = index.map(drop).map_err(|error| error.to_string());
    let history = History::check(db).await.map_err(|error| error.to_string());
    let warning = |what: &str, until_then: &str, checked: Result<(), String>| {
        let error = checked.err()?;
        let error = error.split("; ").next().unwrap_or_default();
        let what = format!("`{}`: {what} damaged: {error}", file.display());
        let fix = format!("restore the folder from a back-up; until then, the kernel {until_then}");
        Some(Check::new("state", Level::Warn, what).with_fix(fix))
    };
    let index = warning("the tool index is", "indexes all tools again at each start", index);
    let history = warning("the stored searches are", "learns nothing from calls", history);
    index.into_iter().chain(history)
}

/// Reports a state that no kernel can use.
pub(super) fn unusable(text: &str) -> Check {
    failed("state", text)
}

/// Reports a file that cannot be used. The part of the text after the last `; ` is the remedy; without that part, the
/// remedy is [`RESTORE`].
fn failed(about: &'static str, text: &str) -> Check {
    let (what, fix) = text.rsplit_once("; ").unwrap_or((text, RESTORE));
    Check::new(about, Level::Fail, what).with_fix(fix)
}

/// Writes and removes a small file in the state folder, or in its nearest existing parent if it does not exist.
fn try_to_write(folder: &Path) -> io::Result<()> {
    let Some(existing) = folder.ancestors().find(|parent| parent.exists()) else { return Ok(()) };
    let file = existing.join(format!(".mgp-doctor-{}", std::process::id()));
    // Remove the file that a killed process with the same id may have left.
    let _ = fs::remove_file(&file);
    let written = create_private(&file).and_then(|mut new| new.write_all(b"mgp doctor\n"));
    let _ = fs::remove_file(&file);
    written
}

/// Reports a state folder that does not exist yet, because its path might be mistyped.
fn not_created(folder: &Path) -> Check {
    let path = folder.display();
    let default = [state::folder_from_environment(), state::folder_in_home()];
    let parent = folder.parent().filter(|parent| !parent.exists());
    match parent.filter(|_| !default.contains(&Some(folder.to_owned()))) {
        None => {
            Check::new("state", Level::Ok, format!("{path} will be created at the first start"))
        }
        Some(parent) => {
            let what = format!("`{path}` does not exist, and neither does `{}`", parent.display());
            Check::new("state", Level::Warn, what).with_fix("correct --state if it is mistyped")
        }
    }
}

async fn check_folder(folder: &Path) -> Vec<Check> {
    let mut checks = Vec::new();
    let bytes: u64 = file_sizes(folder).sum();
    let what = format!("{}, {} KB, private", folder.display(), bytes / 1000);
    checks.push(Check::new("state", Level::Ok, what));
    checks.push(check_log(folder).await);
    checks.extend(lock::check_files(folder).err().map(|failure| unusable(&failure.to_string())));
    checks.extend(check_access(folder));
    checks.extend(state::change_in_future(folder).map(|last| {
        Check::new("clock", Level::Warn, state::clock_text(&last))
            .with_fix("correct the clock, then restart the kernel if it runs")
    }));
    checks
}

/// Reports the first file of the state that this user cannot open as a kernel does, e.g. because `sudo mgp` created it.
fn check_access(folder: &Path) -> Option<Check> {
    // Leave out the database, which is open: to close one of its files here would release this process's locks on it.
    let is_database =
        |entry: &DirEntry| entry.file_name().as_encoded_bytes().starts_with(b"state.db");
    let others = entries(folder).filter(|entry| !is_database(entry));
    // Only read the other files, because some may be read-only, e.g. earlier files of the audit log.
    let is_written = |path: &Path| {
        path.ends_with("kernel.log") || path.extension().is_some_and(|end| end == "lock")
    };
    others.map(|entry| entry.path()).find_map(|path| {
        let opened = match fs::metadata(&path) {
            Ok(found) if !found.is_file() => return None,
            Ok(_) => OpenOptions::new().read(true).append(is_written(&path)).open(&path).map(drop),
            Err(error) => Err(error),
        };
        // Report nothing if a running kernel has removed the file meanwhile.
        let error = opened.err().filter(|_| fs::symlink_metadata(&path).is_ok())?;
        let what = format!("`{}` cannot be opened: {error}", path.display());
        let fix = if path.is_symlink() {
            "restore the file that it links to, or remove the link".to_owned()
        } else {
            let folder = shell_path_or("FOLDER", folder);
            format!("make this user its owner, e.g. after `sudo mgp` with `sudo chown -R \"$USER\" {folder}`")
        };
        Some(Check::new("state", Level::Fail, what).with_fix(fix))
    })
}

/// Verifies the audit log, and looks for records that were lost before.
async fn check_log(folder: &Path) -> Check {
    let verified = async {
        let records = Governance::verify(folder).await?;
        let since = SystemTime::now().checked_sub(LOSS_REPORTED);
        // Ignore an error of this second read, which is unlikely, because `verify` has just read the log.
        let lost = count_lost(folder, RECORDS_LOST, since).await.unwrap_or_default();
        let changes = count_lost(folder, CHANGES_LOST, since).await.unwrap_or_default();
        Ok::<_, FolderError>((records, lost, changes))
    };
    match timeout(VERIFY_TIMEOUT, verified).await {
        Ok(Ok((records, 0, 0))) => {
            Check::new("audit", Level::Ok, format!("{}, unchanged", plural(records, "record")))
        }
        Ok(Ok((_, 0, changes))) => {
            let what = format!(
                "in the last 30 days, the state lost {} that the audit log has: a power cut undid them, or an older state replaced it",
                plural(changes, "change")
            );
            Check::new("audit", Level::Warn, what)
                .with_fix("run `mgp audit query --type changes_lost`, compare the changes before it with `mgp access matrix` and `mgp permissions ls`, and repeat those that are missing")
        }
        Ok(Ok((records, lost, _))) => {
            let (records, lost) = (plural(records, "record"), plural(lost, "record"));
            let what = format!("{records}, unchanged; {lost} lost in the last 30 days");
            Check::new("audit", Level::Warn, what)
                .with_fix("run `mgp audit query --type records_lost`; unless a power cut lost them, another program removed them")
        }
        Ok(Err(error @ FolderError::Log(LogError::Lost { .. }))) => {
            Check::new("audit", Level::Warn, error.to_string())
                .with_fix("start the kernel; unless a power cut lost them, look for the program that removed them")
        }
        Ok(Err(FolderError::Log(error @ LogError::ChangesLost { .. }))) => {
            let text = error.to_string();
            Check::new("audit", Level::Warn, text.split("; ").next().unwrap_or_default())
                .with_fix("put the newer `state.db` and `state.db-wal` back; otherwise start the kernel, compare the last changes in `mgp audit tail` with `mgp access matrix` and `mgp permissions ls`, and repeat those that are missing")
        }
        Ok(Err(FolderError::Empty(_))) => Check::new("audit", Level::Ok, "no records yet"),
        Ok(Err(FolderError::Log(LogError::BadRecord(bad)))) if bad.why == RecordFlaw::NoHead => {
            Check::new("audit", Level::Ok, "no records yet")
        }
        Ok(Err(
            error @ (FolderError::State { .. }
            | FolderError::StateLost { .. }
            | FolderError::StateMissing(_)
            | FolderError::Log(LogError::Exposed { .. } | LogError::Key(_))),
        )) => unusable(&error.to_string()),
        Ok(Err(FolderError::Log(error @ LogError::Store(_)))) => {
            let error = error.to_string();
            let what = error.strip_suffix("; restore a backup").unwrap_or(&error);
            Check::new("audit", Level::Fail, what)
                .with_fix("restore `state.db` and `state.db-wal` from a back-up; without one, keep the log as evidence, and set `dir = \"audit-2\"` below `[kernel.audit]` for a new one")
        }
        Ok(Err(error @ FolderError::Log(LogError::Io { .. }))) => {
            Check::new("audit", Level::Fail, error.to_string()).with_fix(UNREAD_LOG)
        }
        Ok(Err(error)) => Check::new("audit", Level::Fail, error.to_string()).with_fix(CHANGED_LOG),
        Err(_) => Check::new("audit", Level::Warn, "the log is too long to be verified here")
            .with_fix("run `mgp audit verify`"),
    }
}

/// Returns the entries of the state folder and of the folder of its audit log.
fn entries(folder: &Path) -> impl Iterator<Item = DirEntry> {
    let folders = [folder.to_owned(), folder.join("audit")];
    folders.into_iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten()
}

fn file_sizes(folder: &Path) -> impl Iterator<Item = u64> {
    entries(folder)
        .filter_map(|entry| entry.metadata().ok())
        .filter(fs::Metadata::is_file)
        .map(|metadata| metadata.len())
}

/// Returns whether this user may not read a file of the state. [`check_access`] reports such a file with a remedy that
/// keeps its content.
fn is_of_another_user(file: &Path) -> bool {
    let is_denied = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    // Check the kind first, because opening a pipe waits for another process.
    match fs::metadata(file) {
        Ok(found) => found.is_file() && fs::File::open(file).is_err_and(is_denied),
        Err(error) => is_denied(error),
    }
}

/// Reports a file of secrets that cannot be used; without it, no server starts that needs a secret.
pub(super) fn check_secrets(global: &Global) -> Option<Check> {
    let folder = state::folder(global).ok()?;
    if is_of_another_user(&folder.join("secrets.json")) {
        return None;
    }
    let error = SecretFile::in_folder(&folder).names().err()?;
    Some(failed("secrets", &error.to_string()))
}

pub(super) async fn check_keys(global: &Global) -> Option<Check> {
    let file = state::folder(global).ok()?.join("keys.json");
    if !file.exists() || is_of_another_user(&file) {
        return None;
    }
    let records = async { ApiKeys::open(FileKeys::new(&file)).await?.records().await };
    Some(match records.await {
        Ok(keys) => Check::new("keys", Level::Ok, plural(keys.len(), "API key")),
        Err(error) => Check::new("keys", Level::Fail, error.to_string()).with_fix(format!(
            "repair `{}`, or move it away and create new keys with `mgp keys add AGENT`",
            file.display()
        )),
    })
}
