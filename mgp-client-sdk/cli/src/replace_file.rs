//! Replaces files atomically, so that readers never see a partly written file, and keeps back-ups.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mgp_types::{backup_paths, copy_access};

/// The beginning of the suffix of a new file; the process id follows. It names mgp, because leftover files with it are
/// removed, and no file of another program may have it.
const SUFFIX: &str = ".mgp-new";

/// The age at which a new file counts as left by a killed process; writing one takes far less time.
const MAX_AGE: Duration = Duration::from_mins(1);

/// Replaces a file and keeps its owner, group and mode as far as this process is allowed to, or creates the file for
/// its owner only.
pub(crate) fn replace_file(file: &Path, text: &str) -> io::Result<()> {
    NewFile::write(file, text)?.put()
}

/// A new file with the whole text that will replace a file; dropping this value removes the new file.
#[must_use = "the new file is removed when this is dropped"]
pub(crate) struct NewFile<'a> {
    file: &'a Path,
    fresh: PathBuf,
}

impl<'a> NewFile<'a> {
    /// Writes the new file to disk, in the folder of the file that it will replace.
    pub(crate) fn write(file: &'a Path, text: &str) -> io::Result<Self> {
        remove_left(file);
        let new = Self { file, fresh: beside(file, &format!("{SUFFIX}{}", std::process::id())) };
        // Remove the file that a killed process with the same id may have left. A symbolic link is removed, not
        // followed.
        let _ = fs::remove_file(&new.fresh);
        let mut created = create_private(&new.fresh)?;
        created.write_all(text.as_bytes())?;
        if let Ok(old) = fs::metadata(file) {
            #[cfg(not(unix))]
            created.set_permissions(old.permissions())?;
            copy_access(&old, &created)?;
        }
        created.sync_all()?;
        Ok(new)
    }

    /// Replaces the file.
    pub(crate) fn put(self) -> io::Result<()> {
        fs::rename(&self.fresh, self.file)
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        // Ignore an error: after `put`, the path does not exist.
        let _ = fs::remove_file(&self.fresh);
    }
}

/// Removes the new files that killed processes have left beside a file, because they can contain secrets.
fn remove_left(file: &Path) {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let entries = fs::read_dir(folder.unwrap_or(Path::new(".")));
    let (Ok(entries), Some(own)) = (entries, file.file_name().and_then(OsStr::to_str)) else {
        return;
    };
    let is_new = |name: &OsStr| {
        let number = name.to_str().and_then(|name| name.strip_prefix(own)?.strip_prefix(SUFFIX));
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    for entry in entries.flatten().filter(|entry| is_new(&entry.file_name())) {
        let age = entry.metadata().ok().and_then(|found| found.modified().ok()?.elapsed().ok());
        if age.is_some_and(|age| age > MAX_AGE) {
            // Ignore an error: the file that stays does not prevent the change.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Returns the line that a command prints about the back-up that it has made.
pub(crate) fn backup_line(backup: &Path) -> String {
    format!("the previous file is in {}; the newest ten are kept", backup.display())
}

/// Writes a text to a new back-up file in the folder of a file, and returns the back-up's path.
///
/// Keeps the ten newest back-ups of the file, and removes older ones.
pub(crate) fn write_backup(file: &Path, text: &str) -> io::Result<PathBuf> {
    let (path, old) = backup_paths(file)?;
    // Create a new file, which fails if another program has planted a symbolic link at this path. An incomplete back-up
    // must not stay, because it would count as one of the newest ten.
    write_or_remove(&create_private(&path)?, &path, text)?;
    // Ignore an error: an old back-up that stays does no harm.
    for old in old {
        let _ = fs::remove_file(old);
    }
    Ok(path)
}

/// Writes a text to a new file, and removes the file if the text cannot be written completely, e.g. because the disk is
/// full.
pub(crate) fn write_or_remove(mut file: &File, path: &Path, text: &str) -> io::Result<()> {
    file.write_all(text.as_bytes()).inspect_err(|_| {
        let _ = fs::remove_file(path);
    })
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
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
    use std::time::SystemTime;

    use rustix::process::{Gid, getgroups};

    use super::*;

    #[test]
    fn a_new_file_is_private_and_a_planted_link_is_not_followed() {
        let folder = mgp_testkit::temp_dir();
        let (path, target) = (folder.path().join("ready.json"), folder.path().join("target"));
        symlink(&target, beside(&path, &format!("{SUFFIX}{}", std::process::id()))).unwrap();
        replace_file(&path, "text").unwrap();
        assert!(!target.exists(), "the link was followed");
        let metadata = fs::symlink_metadata(&path).unwrap();
        assert_eq!((metadata.is_file(), metadata.permissions().mode() & 0o777), (true, 0o600));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        replace_file(&path, "new text").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(fs::read_to_string(&path).unwrap(), "new text");
    }

    #[test]
    fn a_new_file_that_a_killed_process_left_is_removed() {
        let folder = mgp_testkit::temp_dir();
        let file = folder.path().join("mcp.json");
        let [left, running, other] =
            [".mgp-new0", ".mgp-new00", ".new0"].map(|suffix| beside(&file, suffix));
        for path in [&left, &running, &other] {
            let created = create_private(path).unwrap();
            if *path != running {
                created.set_modified(SystemTime::now() - 2 * MAX_AGE).unwrap();
            }
        }
        replace_file(&file, "text").unwrap();
        let is_there = [&left, &running, &other].map(|path| path.exists());
        assert_eq!(is_there, [false, true, true]);
        drop(NewFile::write(&file, "never used").unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
        assert_eq!(fs::read_to_string(&file).unwrap(), "text");
    }

    #[test]
    fn a_replaced_file_keeps_its_owner_and_its_group() {
        let folder = mgp_testkit::temp_dir();
        let file = folder.path().join("mcp.json");
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        let access = || {
            let found = fs::metadata(&file).unwrap();
            (found.uid(), found.gid(), found.mode() & 0o777)
        };
        let (user, group, _) = access();
        // Only root can give the file to another user; any other user can give it to another of its own groups.
        if chown(&file, Some(user + 1), Some(group + 1)).is_err() {
            let mut groups = getgroups().unwrap().into_iter().map(Gid::as_raw);
            // Ignore an error: in a container, a group can have no number to which a file can be given.
            let _ = chown(&file, None, groups.find(|other| *other != group));
        }
        let before = access();
        replace_file(&file, "new").unwrap();
        assert_eq!(access(), before);
    }

    #[test]
    fn a_backup_follows_no_link_that_was_planted() {
        let folder = mgp_testkit::temp_dir();
        let (file, elsewhere) = (folder.path().join("mcp.json"), folder.path().join("elsewhere"));
        fs::write(&file, "old").unwrap();
        symlink(&elsewhere, folder.path().join("mcp.json.bak1")).unwrap();
        let backup = write_backup(&file, "old").unwrap();
        assert!(!elsewhere.exists(), "the link was followed");
        assert_eq!(backup, folder.path().join("mcp.json.bak2"));
        assert_eq!(fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o600);
        let text = |path: &Path| fs::read_to_string(path).unwrap();
        assert_eq!(text(&backup), "old");
    }

    #[test]
    fn old_backups_do_not_keep_secrets_for_ever() {
        let folder = mgp_testkit::temp_dir();
        let file = folder.path().join("mcp.json");
        for round in 0..25 {
            write_backup(&file, &format!("secret {round}")).unwrap();
        }
        let left = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let mut left: Vec<String> = left.map(|path| fs::read_to_string(path).unwrap()).collect();
        left.sort();
        assert_eq!(left.len(), 10, "{left:?}");
        assert!(left.contains(&"secret 24".to_owned()) && !left.contains(&"secret 14".to_owned()));
    }
}
