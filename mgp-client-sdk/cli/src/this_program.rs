//! The path of the running program, and whether a command starts the same program.

use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path, PathBuf};

use mgp_discovery::import::Entry;

/// Returns the path for starting this program. This is the path with which it was called, even if that is a link,
/// because the link still exists after an upgrade. If that path is not known, returns the path of the executable file.
pub(crate) fn path() -> io::Result<PathBuf> {
    let file = std::env::current_exe()?;
    let called = std::env::args_os().next().and_then(|name| called_path(&name));
    Ok(called.filter(|called| is_same_file(called, &file)).unwrap_or(file))
}

/// Returns whether a command is the path of this program, whatever its name is.
pub(crate) fn is_path(command: &Path) -> bool {
    command.is_absolute() && std::env::current_exe().is_ok_and(|own| is_same_file(command, &own))
}

/// Returns whether an entry of a host's file starts this program as a server.
pub(crate) fn is_mgp(entry: &Entry) -> bool {
    // Undo the doubling of dollar signs: the reader of a host's file doubles each dollar sign outside of variables.
    let program = entry.command.as_deref().map(|command| PathBuf::from(command.replace("$$", "$")));
    program.is_some_and(|program| {
        program.file_stem().is_some_and(|name| name == "mgp") || is_path(&program)
    }) && entry.args.iter().any(|arg| arg == "serve")
}

/// Returns the absolute path of the program that was called by a name, which is searched in the folders of `PATH`.
fn called_path(name: &OsStr) -> Option<PathBuf> {
    let path = Path::new(name);
    if path.components().any(|part| part == Component::ParentDir) {
        return None;
    }
    if path.components().count() > 1 {
        return std::path::absolute(path).ok();
    }
    let folders = std::env::var_os("PATH")?;
    let files = std::env::split_paths(&folders).map(|folder| folder.join(path));
    files.filter(|file| file.is_absolute()).find(|file| file.is_file())
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| dunce::canonicalize(path).ok();
    real(one).is_some_and(|one| Some(one) == real(other))
}
