//! Stores the script of a request as a file in a private folder (MGP §15.4).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mgp_types::PrivateFile;
use tokio::task::spawn_blocking;

use super::program::source_name;
use super::record::Proposal;

/// The maximum time to wait for another process that writes the same file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Writes the script of a proposal to a file, unless the file already has this content; returns its path. Blocks.
pub(super) fn put(folder: Option<&Path>, program: &Proposal) -> Result<Option<PathBuf>, String> {
    let Some(source) = &program.source else { return Ok(None) };
    let Some(folder) = folder else {
        return Err("there is no folder for scripts that came in requests".to_owned());
    };
    let file = file(folder, program);
    // Replace a file that cannot be read, or has other content.
    if !matches!(file.read(), Ok(Some(there)) if there == source.as_bytes()) {
        make(folder)
            .map_err(|error| format!("`{}` cannot be created: {error}", folder.display()))?;
        let turn = file.lock(LOCK_TIMEOUT).map_err(|error| error.to_string())?;
        file.replace(&turn, source.as_bytes()).map_err(|error| error.to_string())?;
    }
    Ok(Some(file.path().to_owned()))
}

/// Creates the folder in which the script of a proposal runs and can write files. Blocks.
pub(super) fn own_folder(
    folder: Option<&Path>,
    program: &Proposal,
) -> Result<Option<PathBuf>, String> {
    let (Some(folder), Some(_)) = (folder, &program.source) else { return Ok(None) };
    let own = own_folder_in(folder, program);
    make(&own).map_err(|error| format!("`{}` cannot be created: {error}", own.display()))?;
    Ok(Some(own))
}

fn own_folder_in(folder: &Path, program: &Proposal) -> PathBuf {
    folder.join(format!("{}.files", program.id))
}

/// Removes the stored script of a proposal, and the folder of the script. A file that cannot be removed does no harm,
/// because it is never run.
pub(super) async fn forget(folder: Option<PathBuf>, program: &Proposal) {
    let (Some(folder), Some(_)) = (folder, &program.source) else { return };
    let path = file(&folder, program).path().to_owned();
    let own = own_folder_in(&folder, program);
    let _ = spawn_blocking(move || {
        let _ = fs::remove_dir_all(own);
        let mut lock = path.clone().into_os_string();
        lock.push(".lock");
        let _ = fs::remove_file(path);
        let _ = fs::remove_file(lock);
    })
    .await;
}

fn file(folder: &Path, program: &Proposal) -> PrivateFile {
    let longest = program.source.as_ref().map_or(0, String::len) as u64;
    PrivateFile::new(folder.join(source_name(program)), longest)
}

#[cfg(unix)]
fn make(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(not(unix))]
fn make(folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)
}
