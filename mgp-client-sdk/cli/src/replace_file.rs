//! Replaces a file atomically, so that readers never see a partly written file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Replaces a file and keeps its mode, or creates the file for its owner only.
pub(crate) fn replace_file(file: &Path, text: &str) -> io::Result<()> {
    let fresh = beside(file, &format!(".new{}", std::process::id()));
    // Remove the file that a killed process with the same id may have left. A symbolic link is removed, not followed.
    let _ = fs::remove_file(&fresh);
    let written = create_private(&fresh).and_then(|mut new| {
        new.write_all(text.as_bytes())?;
        if let Ok(metadata) = fs::metadata(file) {
            new.set_permissions(metadata.permissions())?;
        }
        new.sync_all()?;
        fs::rename(&fresh, file)
    });
    if written.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    written
}

/// Returns the path with a suffix appended to its file name.
pub(crate) fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Creates a new file for its owner only; fails if the path exists, even as a symbolic link.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_new_file_is_private_and_a_planted_link_is_not_followed() {
        let folder = mgp_testkit::temp_dir();
        let (path, target) = (folder.path().join("ready.json"), folder.path().join("target"));
        symlink(&target, beside(&path, &format!(".new{}", std::process::id()))).unwrap();
        replace_file(&path, "text").unwrap();
        assert!(!target.exists(), "the link was followed");
        let metadata = fs::symlink_metadata(&path).unwrap();
        assert_eq!((metadata.is_file(), metadata.permissions().mode() & 0o777), (true, 0o600));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        replace_file(&path, "new text").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(fs::read_to_string(&path).unwrap(), "new text");
    }
}
