//! Reads a configuration file, and refuses a file of the wrong kind, size or permissions (MGP §15.2).

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::Origin;
use crate::config::limits;
use crate::error::DiscoveryError;

/// The reason reported for a link that leads nowhere.
const BROKEN_LINK: &str = "it is a link to a file that does not exist";

/// Returns the text of a file; `None` if it does not exist. A link to a file that does not exist is an error. Its
/// target might be on a file system that is not mounted, and without the file the operator's rules would not apply.
pub(crate) fn text_of(path: &Path, origin: Origin) -> Result<Option<String>, DiscoveryError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::PermissionDenied => DiscoveryError::NotYours { path: path.to_owned() },
        _ => DiscoveryError::Io { path: path.to_owned(), verb: "read", source },
    };
    // Check this before opening the file: opening a named pipe would block until it has a writer.
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && path.is_symlink() => {
            return Err(failed(io::Error::new(error.kind(), BROKEN_LINK)));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
        Ok(metadata) if !metadata.is_file() => {
            return Err(DiscoveryError::NotPlain { path: path.to_owned() });
        }
        Ok(metadata) => exposed(path, &metadata, origin)?,
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(limits::MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > limits::MAX_FILE_BYTES {
        return Err(DiscoveryError::TooLong { path: path.to_owned() });
    }
    let text =
        String::from_utf8(bytes).map_err(|_| DiscoveryError::NotText { path: path.to_owned() })?;
    // Remove the byte order mark, which editors on Windows write at the beginning of files.
    Ok(Some(match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    }))
}

/// Returns an error if every user of the machine can write the file. A project's file is exempt, because its content
/// needs an approval.
#[cfg(unix)]
fn exposed(path: &Path, metadata: &fs::Metadata, origin: Origin) -> Result<(), DiscoveryError> {
    use std::os::unix::fs::PermissionsExt as _;
    if origin != Origin::Project && metadata.permissions().mode() & 0o002 != 0 {
        return Err(DiscoveryError::Exposed { path: path.to_owned() });
    }
    Ok(())
}

#[cfg(not(unix))]
fn exposed(_: &Path, _: &fs::Metadata, _: Origin) -> Result<(), DiscoveryError> {
    Ok(())
}

/// Returns the folder of a file if every user of the machine can write it, and so replace the file.
#[cfg(unix)]
pub(super) fn exposed_folder(path: &Path) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    // A folder with the sticky bit, such as `/tmp`, is not exposed, because other users cannot replace a file of this
    // user in it.
    let is_exposed = |folder: &&Path| {
        let mode = fs::metadata(folder).map(|found| found.permissions().mode());
        mode.is_ok_and(|mode| mode & 0o1002 == 0o002) && !is_read_only(folder)
    };
    let real = dunce::canonicalize(path).ok()?;
    [path, real.as_path()].into_iter().filter_map(Path::parent).find(is_exposed).map(Path::to_owned)
}

/// Returns whether a folder is on a read-only file system, e.g. a `ConfigMap` of Kubernetes, whose folder has the mode
/// 0777.
#[cfg(unix)]
fn is_read_only(folder: &Path) -> bool {
    use rustix::fs::{StatVfsMountFlags, statvfs};
    statvfs(folder).is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::RDONLY))
}

#[cfg(not(unix))]
pub(super) fn exposed_folder(_: &Path) -> Option<PathBuf> {
    None
}
