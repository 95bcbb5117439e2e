//! The state folder of the kernel, and the database in it.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mgp_discovery::Trust;
use mgp_security::FolderError;
use mgp_types::Timestamp;
use mgp_types::store::{Db, DbConfig, Durability, StoreError};
use tokio::time::timeout;

use crate::args::Global;
use crate::exit::{CliResult, Failure};
use crate::pipe;

/// The remedy for a folder that cannot be used for the state.
const OTHER_FOLDER: &str = "name a folder of your own with --state DIR";

const DATABASE: &str = "state.db";

/// The error about a locked database. A kernel whose `state.db-wal` was removed keeps the lock, and its status has the
/// remedy.
const BUSY: &str = "the store is busy: another process keeps its lock; if a kernel runs, see `mgp status`, else look for a process that hangs";

/// The tolerated lag of the clock; a longer one is reported. File servers may have a slightly different time.
const MAX_CLOCK_LAG: Duration = Duration::from_mins(10);

/// The time that databases get to close when this process ends.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns the path given by `--state`, or else the default path: below `$XDG_STATE_HOME`, or below the user's home
/// folder. Refuses the default path to root if it is in a folder of the user who ran `sudo`.
pub(crate) fn folder(global: &Global) -> CliResult<PathBuf> {
    if let Some(folder) = &global.state {
        // Make the path absolute, because a detached kernel changes its working folder.
        return std::path::absolute(folder).map_err(|error| unusable(folder, &error));
    }
    let folder = folder_from_environment().or_else(folder_in_home).ok_or_else(|| {
        Failure::usage("the home folder is not known; name a folder with --state DIR")
    })?;
    #[cfg(unix)]
    refuse_sudo(&folder)?;
    Ok(folder)
}

/// Refuses a folder of the user who ran `sudo`, because root would create files there that this user cannot read.
/// Some systems, e.g. macOS, keep the home folder of the user under `sudo`.
#[cfg(unix)]
fn refuse_sudo(folder: &Path) -> CliResult {
    use std::os::unix::fs::MetadataExt as _;
    let existing = folder.ancestors().find_map(|parent| fs::metadata(parent).ok());
    let user = std::env::var("SUDO_UID").ok();
    let is_root = rustix::process::geteuid().is_root();
    if existing.is_some_and(|found| is_sudo_of(found.uid(), user.as_deref(), is_root)) {
        let folder = folder.display();
        return Err(Failure::failed(format!(
            "root would create files in `{folder}` that its owner cannot read; run mgp without `sudo`, or name a folder of root with --state DIR"
        )));
    }
    Ok(())
}

/// Refuses a change of the state of another user to root under `sudo`, because that user could not read the files that
/// root creates or replaces, e.g. `keys.json`.
#[cfg(unix)]
pub(crate) fn refuse_sudo_change(global: &Global) -> CliResult {
    use std::os::unix::fs::MetadataExt as _;
    let folder = folder(global)?;
    let is_sudo = std::env::var_os("SUDO_UID").is_some() && rustix::process::geteuid().is_root();
    // The first start of a service of another user creates the state, and then only a folder above it exists.
    let database = folder.join(DATABASE);
    let existing = database.ancestors().find_map(|path| fs::metadata(path).ok());
    let owner = existing.map_or(0, |found| found.uid());
    if is_sudo && owner != 0 {
        let folder = folder.display();
        return Err(Failure::failed(format!(
            "the state in `{folder}` belongs to another user, who could not read what root writes there; run mgp with `sudo -Hu '#{owner}'`"
        )));
    }
    Ok(())
}

/// Returns whether this process is root because the owner of a folder ran `sudo`; `user` is `$SUDO_UID`.
#[cfg(unix)]
fn is_sudo_of(owner: u32, user: Option<&str>, is_root: bool) -> bool {
    is_root && owner != 0 && user.and_then(|user| user.parse().ok()) == Some(owner)
}

/// Creates the folder for a kernel, like [`create_folder`]; logs a warning if the clock is behind the last change of
/// the state.
pub(crate) fn create_kernel_folder(global: &Global) -> CliResult<PathBuf> {
    let folder = create_folder(global)?;
    if let Some(last) = change_in_future(&folder) {
        tracing::warn!("{}; see `mgp doctor`", clock_text(&last));
    }
    Ok(folder)
}

/// Returns the time of the last change of the database, if the clock is behind it, e.g. because the machine has lost
/// its time.
pub(crate) fn change_in_future(folder: &Path) -> Option<Timestamp> {
    let changed = |file: &str| fs::metadata(folder.join(file)).ok()?.modified().ok();
    let last = [DATABASE, "state.db-wal"].into_iter().filter_map(changed).max()?;
    let lag = last.duration_since(SystemTime::now()).ok()?;
    (lag >= MAX_CLOCK_LAG).then(|| last.into())
}

/// Returns the text about a clock that is behind the last change of the state.
pub(crate) fn clock_text(last: &Timestamp) -> String {
    format!(
        "the last change of the state has the time {last}, which is in the future, so the clock is or was wrong; with a clock that is behind, grants and keys expire later than intended"
    )
}

/// Returns the path of the state folder below the user's home folder.
pub(crate) fn folder_in_home() -> Option<PathBuf> {
    Some(std::env::home_dir()?.join(".local/state/mgp"))
}

/// Returns the path of the state folder below `$XDG_STATE_HOME`, if that variable is set to an absolute path.
pub(crate) fn folder_from_environment() -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os("XDG_STATE_HOME")?);
    // Ignore a relative path, as the XDG specification requires: it would name another folder for each program.
    folder.is_absolute().then(|| folder.join("mgp"))
}

/// Returns the path of the file that marks a state folder as used by a service. This marker contains the path of the
/// file that describes the service.
pub(crate) fn service_marker(folder: &Path) -> PathBuf {
    folder.join("service")
}

/// Returns whether an installed service uses a state folder.
pub(crate) fn is_of_service(folder: &Path) -> bool {
    pipe::read_to_string(&service_marker(folder)).is_ok_and(|file| Path::new(&file).exists())
}

/// Returns the state folder. If it does not exist, creates it so that only its owner has access.
pub(crate) fn create_folder(global: &Global) -> CliResult<PathBuf> {
    let folder = folder(global)?;
    create(&folder)?;
    Ok(folder)
}

/// Creates a state folder so that only its owner has access, unless it exists.
pub(crate) fn create(folder: &Path) -> CliResult {
    if check_folder(folder)? {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|error| unusable(folder, &error))
}

/// Returns whether the state folder exists; refuses a file, and a folder that is open to others.
pub(crate) fn check_folder(folder: &Path) -> CliResult<bool> {
    let metadata = match fs::metadata(folder) {
        Ok(metadata) => metadata,
        // Fail if the folder is a link to a folder that does not exist, e.g. on a disk that is not mounted. Otherwise
        // the state there would count as missing.
        Err(error) if error.kind() == ErrorKind::NotFound && folder.is_symlink() => {
            let path = folder.display();
            return Err(Failure::failed(format!(
                "`{path}` is a link to a folder that does not exist; {OTHER_FOLDER}"
            )));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(unusable(folder, &error)),
    };
    let path = folder.display();
    if !metadata.is_dir() {
        return Err(Failure::failed(format!("`{path}` is not a folder; {OTHER_FOLDER}")));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;

        use crate::state_option::shell_path_or;

        let mode = metadata.permissions().mode();
        if mode & 0o077 != 0 {
            let word = shell_path_or("FOLDER", folder);
            let database = fs::metadata(folder.join(DATABASE));
            let fix = if !is_state_folder(folder, &metadata) {
                OTHER_FOLDER.to_owned()
            } else if database.is_ok_and(|found| found.permissions().mode() & 0o077 != 0) {
                // What opened the database too, e.g. a copy or the `fsGroup` of Kubernetes, opened all files.
                format!("run `chmod -R go= {word}`")
            } else {
                format!("run `chmod 700 {word}`")
            };
            let mode = mode & 0o7777;
            return Err(Failure::failed(format!(
                "`{path}` is open to others (mode {mode:o}); {fix}"
            )));
        }
    }
    Ok(true)
}

/// Returns whether a folder has only this user's state, or nothing, so that closing it to other users does no harm.
#[cfg(unix)]
fn is_state_folder(folder: &Path, metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let is_shared = metadata.permissions().mode() & 0o1000 != 0
        || metadata.uid() != rustix::process::geteuid().as_raw();
    let is_empty = || fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
    !is_shared && (folder.join(DATABASE).exists() || is_empty())
}

/// Creates the failure for a file or folder of the state that cannot be used; names a remedy if another folder would
/// help.
pub(crate) fn unusable(path: &Path, error: &io::Error) -> Failure {
    let fix = match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::NotADirectory => {
            format!("; {OTHER_FOLDER}")
        }
        ErrorKind::IsADirectory => "; move it away".to_owned(),
        _ => String::new(),
    };
    Failure::failed(format!("`{}` cannot be used: {error}{fix}", path.display()))
}

/// Returns the store of the approvals that the user gave to configuration files of projects.
pub(crate) async fn trust(global: &Global) -> CliResult<Trust> {
    Ok(Trust::new(Arc::new(db(global).await?)))
}

/// Closes all databases of this process, and waits up to [`CLOSE_TIMEOUT`] for that. If the process ended without this,
/// its last changes would only be in `state.db-wal`, and a copy of `state.db` would lack them.
pub(crate) async fn close_databases() {
    let _ = timeout(CLOSE_TIMEOUT, Db::close_all()).await;
}

/// Opens the database in the state folder; a running kernel notices changes made in it.
pub(crate) async fn db(global: &Global) -> CliResult<Db> {
    open_db(global, Durability::Normal).await
}

/// Opens the database in the state folder, with changes of this durability.
pub(crate) async fn open_db(global: &Global, durability: Durability) -> CliResult<Db> {
    let folder = create_folder(global)?;
    let file = folder.join(DATABASE);
    // The first audit log creates `digest.key` after the database. So a folder that has this key but not the database
    // has lost its database.
    if matches!(file.try_exists(), Ok(false)) && folder.join("digest.key").exists() {
        return Err(FolderError::StateMissing(file).into());
    }
    let failed = |error: StoreError| {
        let shown = match error {
            StoreError::Busy(_) => BUSY.to_owned(),
            error => error.to_string(),
        };
        Failure::failed(format!("the state in `{}` cannot be used: {shown}", file.display()))
    };
    let mut config = DbConfig::new(&file);
    config.durability = durability;
    config.open().await.map_err(failed)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn root_is_refused_in_the_folder_of_the_user_who_ran_sudo_only() {
        assert!(is_sudo_of(1000, Some("1000"), true));
        assert!(!is_sudo_of(1000, Some("1000"), false), "another user than root");
        assert!(!is_sudo_of(0, Some("1000"), true), "the folder of root, as after `sudo -H`");
        assert!(!is_sudo_of(0, Some("0"), true), "root ran `sudo`");
        assert!(!is_sudo_of(1000, None, true), "root of a container, without `sudo`");
    }
}
