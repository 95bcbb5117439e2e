//! The ready file: one line of JSON that exists while the kernel serves, for scripts that wait for the kernel.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::exit::{CliResult, Failure};
use crate::replace_file::replace_file;

#[derive(Debug, Serialize)]
pub(crate) struct ReadyLine<'a> {
    /// The process id of the kernel.
    pub(crate) pid: u32,
    /// The kernel's URL for MCP over HTTP; `None` if it does not serve HTTP.
    pub(crate) http: Option<&'a str>,
    /// The path of the kernel's local socket.
    pub(crate) socket: Option<&'a Path>,
    /// The ids of all configured servers, running or not.
    pub(crate) servers: &'a [String],
}

/// A written ready file; dropping this value removes the file.
#[derive(Debug)]
#[must_use = "the file is removed when this is dropped"]
pub(crate) struct ReadyFile {
    path: PathBuf,
    text: String,
}

impl ReadyFile {
    pub(crate) fn write(path: &Path, line: &ReadyLine<'_>) -> CliResult<Self> {
        let text = serde_json::to_string(line)? + "\n";
        replace_file(path, &text).map_err(|error| {
            let path = path.display();
            Failure::failed(format!("the ready file `{path}` cannot be written: {error}"))
        })?;
        Ok(Self { path: path.to_owned(), text })
    }
}

impl Drop for ReadyFile {
    fn drop(&mut self) {
        // Keep the file if another process has written a new one to the same path in the meantime.
        if fs::read_to_string(&self.path).is_ok_and(|text| text == self.text) {
            let _ = fs::remove_file(&self.path);
        }
    }
}
