//! Reads and writes the text of a host's file, which the host may change at the same time.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::exit::{CliResult, Failure};
use crate::pipe::explained;
use crate::replace_file::{NewFile, write_backup};

/// The maximum length of a host's file.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Reads the text of a host's file; `None` if the file does not exist.
pub(super) fn read(file: &Path) -> CliResult<Option<String>> {
    let failed = |error| Failure::failed(format!("`{}` cannot be read: {error}", file.display()));
    match fs::metadata(file) {
        Err(error) if error.kind() == ErrorKind::NotFound && file.is_symlink() => {
            Err(Failure::dangling(file))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
        // Check the kind of the file before reading it, because opening a named pipe would block.
        Ok(metadata) if !metadata.is_file() => {
            Err(Failure::failed(format!("`{}` is not a plain file", file.display())))
        }
        Ok(metadata) if metadata.len() > MAX_FILE_BYTES => Err(Failure::failed(format!(
            "`{}` is longer than {MAX_FILE_BYTES} bytes",
            file.display()
        ))),
        Ok(_) => fs::read_to_string(file).map(Some).map_err(|error| failed(explained(error))),
    }
}

/// Writes the host's file and a back-up beside it; returns the path of the back-up.
pub(super) fn write(file: &Path, before: Option<&str>, after: &str) -> CliResult<Option<PathBuf>> {
    if before == Some(after) {
        return Ok(None);
    }
    prepare(file, before)?;
    let backup = before.map(|before| write_backup(file, before)).transpose();
    let backup = backup.map_err(|error| Failure::unwritable(file, &error))?;
    replace(file, before, after).map(|()| backup)
}

/// Replaces the host's file if its text is still `before`.
pub(super) fn replace(file: &Path, before: Option<&str>, after: &str) -> CliResult {
    let new = NewFile::write(file, after).map_err(|error| Failure::unwritable(file, &error))?;
    put(new, file, before)
}

/// Puts the new file in the place of the host's file. Compares the text only now: writing the new file to disk takes a
/// while, in which the host may have changed its file.
fn put(new: NewFile<'_>, file: &Path, before: Option<&str>) -> CliResult {
    check_unchanged(file, before)?;
    new.put().map_err(|error| Failure::unwritable(file, &error))
}

/// Creates the folder of a file. Fails if the text of the file is no longer `before`.
pub(super) fn prepare(file: &Path, before: Option<&str>) -> CliResult {
    check_unchanged(file, before)?;
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(|error| Failure::unwritable(file, &error))?;
    }
    Ok(())
}

/// Fails if the text of the file is no longer `before`: a host may change the file while the command waits for the
/// person's answer.
pub(super) fn check_unchanged(file: &Path, before: Option<&str>) -> CliResult {
    if read(file)?.as_deref() == before {
        return Ok(());
    }
    let file = file.display();
    Err(Failure::failed(format!("`{file}` was changed by another program; try again")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_too_long_is_not_read() {
        let folder = mgp_testkit::temp_dir();
        let file = folder.path().join("mcp.json");
        fs::File::create(&file).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap();
        assert!(read(&file).unwrap_err().to_string().contains("is longer than"));
    }

    #[test]
    fn a_file_that_the_host_has_changed_is_not_overwritten() {
        let folder = mgp_testkit::temp_dir();
        let file = folder.path().join("mcp.json");
        let refused = |before: Option<&str>| {
            let refused = write(&file, before, "ours").unwrap_err().to_string();
            assert!(refused.ends_with("was changed by another program; try again"), "{refused}");
        };
        fs::write(&file, "theirs").unwrap();
        refused(Some("before"));
        refused(None);
        assert_eq!(fs::read_to_string(&file).unwrap(), "theirs");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "there is no back-up");
        assert!(write(&file, Some("theirs"), "ours").unwrap().is_some());
    }

    #[test]
    fn a_file_that_the_host_changes_while_the_new_one_is_written_is_not_overwritten() {
        let folder = mgp_testkit::temp_dir();
        let file = folder.path().join("mcp.json");
        fs::write(&file, "before").unwrap();
        let new = NewFile::write(&file, "ours").unwrap();
        fs::write(&file, "theirs").unwrap();
        let refused = put(new, &file, Some("before")).unwrap_err().to_string();
        assert!(refused.ends_with("was changed by another program; try again"), "{refused}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "theirs");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "the new file was removed");
    }
}
