//! The ready file: one line of JSON that exists while the kernel serves, for scripts that wait for the kernel.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use crate::exit::{CliResult, Failure};
use crate::replace_file::replace_file;
use crate::socket;

#[derive(Debug, Serialize)]
pub(crate) struct ReadyLine<'a> {
    /// The process id of the kernel.
    pub(crate) pid: u32,
    /// The kernel's URL for MCP over HTTP; `None` if it does not serve HTTP.
    pub(crate) http: Option<&'a str>,
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
    /// Removes the file that a killed process has left, so that no script takes it for the file of the new process.
    /// Keeps any other file, and the file of a kernel that still serves.
    pub(crate) fn remove_old(path: &Path) {
        // Keep anything that is not a plain file, e.g. a pipe.
        if !fs::symlink_metadata(path).is_ok_and(|found| found.is_file()) {
            return;
        }
        let Ok(text) = fs::read_to_string(path) else { return };
        let Ok(line) = serde_json::from_str::<Value>(&text) else { return };
        let socket = line.get("socket").and_then(Value::as_str).map(Path::new);
        let is_served = socket.is_some_and(|socket| socket::connect(socket).is_ok());
        if line.get("pid").is_some_and(Value::is_u64) && !is_served {
            // Ignore an error: writing the new file reports it.
            let _ = fs::remove_file(path);
        }
    }

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
        // Keep the file if another process has written a new one to the same path meanwhile.
        if fs::read_to_string(&self.path).is_ok_and(|text| text == self.text) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_no_kernel_wrote_stays() {
        let folder = mgp_testkit::temp_dir();
        let path = folder.path().join("ready.json");
        for (text, stays) in [("[kernel]", true), (r#"{"id":1}"#, true), (r#"{"pid":1}"#, false)] {
            fs::write(&path, text).unwrap();
            ReadyFile::remove_old(&path);
            assert_eq!(path.exists(), stays, "{text}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn the_file_of_a_kernel_stays_while_it_serves() {
        let folder = mgp_testkit::temp_dir();
        let (path, socket) = (folder.path().join("ready.json"), folder.path().join("mgp.sock"));
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let line = ReadyLine { pid: 1, http: None, socket: Some(&socket), servers: &[] };
        fs::write(&path, serde_json::to_string(&line).unwrap()).unwrap();
        ReadyFile::remove_old(&path);
        assert!(path.exists());
        drop(listener);
        ReadyFile::remove_old(&path);
        assert!(!path.exists());
    }
}
