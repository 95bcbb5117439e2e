//! The ready file: one line of JSON, there while everything is served.
//!
//! Applies to: both.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::exit::{Ended, Failure};
use crate::own_file::create;

/// What the line says.
#[derive(Debug, Serialize)]
pub(crate) struct Line<'a> {
    /// The process of the kernel.
    pub(crate) pid: u32,
    /// The URL it serves.
    pub(crate) http: Option<&'a str>,
    /// Its local socket.
    pub(crate) socket: Option<&'a Path>,
    /// The ids of its servers, whether they run or not.
    pub(crate) servers: &'a [String],
}

/// The file; it goes when this is dropped.
#[derive(Debug)]
#[must_use = "the file goes when this is dropped"]
pub(crate) struct ReadyFile {
    path: PathBuf,
    text: String,
}

impl ReadyFile {
    /// Writes it, so that nobody reads half of it.
    pub(crate) fn write(path: &Path, line: &Line<'_>) -> Ended<Self> {
        let failed = |error: std::io::Error| {
            Failure::failed(format!(
                "the ready file `{}` cannot be written: {error}",
                path.display()
            ))
        };
        let text = serde_json::to_string(line)? + "\n";
        let mut fresh = path.as_os_str().to_owned();
        fresh.push(format!(".{}", std::process::id()));
        let fresh = PathBuf::from(fresh);
        // Of a process that had our number and was killed.
        let _ = fs::remove_file(&fresh);
        let written = create(&fresh)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .and_then(|()| fs::rename(&fresh, path));
        if let Err(error) = written {
            let _ = fs::remove_file(&fresh);
            return Err(failed(error));
        }
        Ok(Self { path: path.to_owned(), text })
    }
}

impl Drop for ReadyFile {
    fn drop(&mut self) {
        // Somebody else's is left alone.
        if fs::read_to_string(&self.path).is_ok_and(|text| text == self.text) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn the_file_is_its_owners_alone_and_follows_no_link() {
        let folder = std::env::temp_dir().join(format!("mgp-ready-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let (path, elsewhere) = (folder.join("ready.json"), folder.join("elsewhere"));
        symlink(&elsewhere, folder.join(format!("ready.json.{}", std::process::id()))).unwrap();
        let line = Line { pid: 1, http: None, socket: None, servers: &[] };
        let file = ReadyFile::write(&path, &line).unwrap();
        assert!(!elsewhere.exists(), "the link was followed");
        let metadata = fs::symlink_metadata(&path).unwrap();
        assert_eq!((metadata.is_file(), metadata.permissions().mode() & 0o777), (true, 0o600));
        drop(file);
        assert!(!path.exists());
        fs::remove_dir_all(&folder).unwrap();
    }
}
