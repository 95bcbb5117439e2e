//! Reads text files. Refuses a named pipe in place of a file, because opening a pipe waits for another process.

use std::path::Path;
use std::{fs, io};

pub(crate) fn refuse(path: &Path) -> io::Result<()> {
    if is_pipe(path) { Err(io::Error::other("it is a pipe; move it away")) } else { Ok(()) }
}

/// Reads a text file; refuses a pipe.
pub(crate) fn read_to_string(path: &Path) -> io::Result<String> {
    refuse(path)?;
    fs::read_to_string(path).map_err(explained)
}

/// Adds the remedy to the error for a text that is not UTF-8, e.g. a file that an older `PowerShell` wrote.
pub(crate) fn explained(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::InvalidData {
        return io::Error::new(error.kind(), "it is not UTF-8; save it as UTF-8");
    }
    error
}

#[cfg(unix)]
fn is_pipe(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo())
}

#[cfg(not(unix))]
fn is_pipe(_: &Path) -> bool {
    false
}
