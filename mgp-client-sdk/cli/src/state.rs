//! The state folder of the kernel, and the database in it.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use mgp_types::store::Db;

use crate::args::Global;
use crate::exit::{CliResult, Failure};

/// Returns the path given by `--state`, or the default path in the user's folder for state.
pub(crate) fn folder(global: &Global) -> CliResult<PathBuf> {
    if let Some(folder) = &global.state {
        // Made absolute, because a detached kernel changes its working folder.
        return Ok(std::path::absolute(folder)?);
    }
    if let Some(folder) = folder_from_environment() {
        return Ok(folder);
    }
    let home = std::env::home_dir();
    let home = home.ok_or_else(|| {
        Failure::usage("the home folder is not known; name a folder with --state DIR")
    })?;
    Ok(home.join(".local/state/mgp"))
}

/// Returns the path of the state folder below `$XDG_STATE_HOME`, if that variable is set.
pub(crate) fn folder_from_environment() -> Option<PathBuf> {
    let folder = std::env::var_os("XDG_STATE_HOME").filter(|value| !value.is_empty())?;
    Some(PathBuf::from(folder).join("mgp"))
}

/// Returns the state folder; creates it for its owner only if it does not exist.
pub(crate) fn create_folder(global: &Global) -> CliResult<PathBuf> {
    let folder = folder(global)?;
    let failed = |error| unusable(&folder, &error);
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
        if let Ok(metadata) = fs::metadata(&folder) {
            let mode = metadata.permissions().mode() & 0o777;
            if mode & 0o077 != 0 {
                let folder = folder.display();
                return Err(Failure::failed(format!(
                    "`{folder}` is open to others (mode {mode:o}); run `chmod 700 {folder}`"
                )));
            }
        }
        builder.mode(0o700);
    }
    builder.create(&folder).map_err(failed)?;
    Ok(folder)
}

/// Creates the failure for a state file that cannot be used, with a remedy if it belongs to another user.
pub(crate) fn unusable(path: &Path, error: &io::Error) -> Failure {
    let fix = match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::NotADirectory => {
            "; name a folder of your own with --state DIR"
        }
        _ => "",
    };
    Failure::failed(format!("`{}` cannot be used: {error}{fix}", path.display()))
}

/// Opens the database in the state folder; a running kernel notices changes made in it.
pub(crate) async fn db(global: &Global) -> CliResult<Db> {
    let file = create_folder(global)?.join("state.db");
    let failed = |error| {
        Failure::failed(format!("the state in `{}` cannot be used: {error}", file.display()))
    };
    Db::open(&file).await.map_err(failed)
}
