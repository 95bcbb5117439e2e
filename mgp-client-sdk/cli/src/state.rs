//! Where the state of the kernel is.
//!
//! Applies to: both.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use mgp_types::store::Db;

use crate::cli::Global;
use crate::exit::{Ended, Failure};

/// The folder of the state: as said, else in the user's folder for state.
pub(crate) fn folder(global: &Global) -> Ended<PathBuf> {
    if let Some(folder) = &global.state {
        return Ok(folder.clone());
    }
    if let Some(folder) = by_environment() {
        return Ok(folder);
    }
    let home = std::env::home_dir();
    let home =
        home.ok_or_else(|| Failure::usage("no home folder is known; name one with --state DIR"))?;
    Ok(home.join(".local/state/mgp"))
}

/// The folder that the environment decides, besides what names it as a whole.
pub(crate) fn by_environment() -> Option<PathBuf> {
    let folder = std::env::var_os("XDG_STATE_HOME").filter(|value| !value.is_empty())?;
    Some(PathBuf::from(folder).join("mgp"))
}

/// The same, made where it is missing; only its owner may use it.
pub(crate) fn made(global: &Global) -> Ended<PathBuf> {
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
                let why = format!(
                    "`{folder}` is open to others (mode {mode:o}); run `chmod 700 {folder}`"
                );
                return Err(Failure::failed(why));
            }
        }
        builder.mode(0o700);
    }
    builder.create(&folder).map_err(failed)?;
    Ok(folder)
}

/// Why something of the state cannot be used, with what to do where it is not ours.
pub(crate) fn unusable(path: &Path, error: &io::Error) -> Failure {
    let fix = match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::NotADirectory => {
            "; name a folder of your own with --state DIR"
        }
        _ => "",
    };
    Failure::failed(format!("`{}` cannot be used: {error}{fix}", path.display()))
}

/// The database of the state; a kernel that runs sees what is changed in it.
pub(crate) async fn db(global: &Global) -> Ended<Db> {
    let file = made(global)?.join("state.db");
    let failed = |error| {
        Failure::failed(format!("the state in `{}` cannot be used: {error}", file.display()))
    };
    Db::open(&file).await.map_err(failed)
}
