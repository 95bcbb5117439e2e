//! The files of registered servers in a private folder: the script of a request, and the folder of a server that has
//! one of its own (MGP §15.4).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mgp_types::PrivateFile;
use tokio::task::spawn_blocking;

use super::confinement::confined_code;
use super::program::source_name;
use super::record::Proposal;
use crate::expand::ConfinedCode;

/// The maximum time to wait for another process that writes the same file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum number of names that are tried for a folder that will be removed.
const MAX_NAMES: u32 = 1000;

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

/// Creates the folder in which the script or the package of a proposal runs and can write files; returns `None` for
/// other programs. Blocks.
pub(super) fn own_folder(
    folder: Option<&Path>,
    program: &Proposal,
) -> Result<Option<PathBuf>, String> {
    if !has_own_folder(program) {
        return Ok(None);
    }
    let folder = folder.ok_or("a kernel without a state folder cannot run this server")?;
    let own = own_folder_in(folder, program);
    make(&own).map_err(|error| format!("`{}` cannot be created: {error}", own.display()))?;
    Ok(Some(own))
}

/// Returns whether a program runs in a private folder and not in its `cwd`.
pub(super) fn has_own_folder(program: &Proposal) -> bool {
    program.source.is_some() || confined_code(program) == Some(ConfinedCode::Package)
}

fn own_folder_in(folder: &Path, program: &Proposal) -> PathBuf {
    folder.join(format!("{}.files", program.id))
}

/// Removes the stored script and the folder of a proposal; returns an error if the folder is still there. A script that
/// cannot be removed does no harm, because it is never run.
pub(super) async fn forget(folder: Option<PathBuf>, program: &Proposal) -> Result<(), String> {
    let Some(folder) = folder.filter(|_| has_own_folder(program)) else { return Ok(()) };
    let script = program.source.is_some().then(|| file(&folder, program).path().to_owned());
    let own = own_folder_in(&folder, program);
    let removed = spawn_blocking(move || {
        if let Some(script) = script {
            let mut lock = script.clone().into_os_string();
            lock.push(".lock");
            let _ = fs::remove_file(script);
            let _ = fs::remove_file(lock);
        }
        remove_own(&own)
    });
    removed.await.map_err(|error| error.to_string())?
}

/// Removes the folder of a server. Renames it first: a server can prevent that its files are removed, and a later
/// server with the same id must not run them. Returns an error if the folder is still there.
fn remove_own(own: &Path) -> Result<(), String> {
    let is_there = || fs::exists(own).unwrap_or(true);
    if !is_there() {
        return Ok(());
    }
    // A confined server can also change the permissions of the folder above.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let above = own.parent().unwrap_or(own);
        let _ = fs::set_permissions(above, fs::Permissions::from_mode(0o700));
    }
    let mut names = (0..MAX_NAMES).map(|number| own.with_extension(format!("removed{number}")));
    let renamed = names.find(|name| fs::rename(own, name).is_ok());
    let _ = fs::remove_dir_all(renamed.as_deref().unwrap_or(own));
    if is_there() {
        return Err(format!("the folder `{}` of the server cannot be removed", own.display()));
    }
    Ok(())
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

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_folder_whose_server_prevents_the_removal_is_not_used_again() {
        let folder = mgp_testkit::temp_dir();
        let at = |path: &str| folder.path().join(path);
        fs::create_dir_all(at("made.files/cache")).unwrap();
        fs::write(at("made.files/cache/package"), "").unwrap();
        let protect = |path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
        protect(at("made.files/cache"), 0o500).unwrap();
        protect(at(""), 0o500).unwrap();
        remove_own(&at("made.files")).unwrap();
        assert!(!at("made.files").exists());
        // Root can remove the folder; for other users, the end of the test removes it.
        let _ = protect(at("made.removed0/cache"), 0o700);
    }
}
