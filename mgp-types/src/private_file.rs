//! Files for keys and tokens, which only their owner can read.
//!
//! All functions block the calling thread.

mod holder;

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use self::holder::lock_holder;

/// The maximum number of back-ups of one file. The number is small, because each back-up contains the secrets that the
/// file contained at that time.
const MAX_BACKUPS: u64 = 10;

const LOCK_INTERVAL: Duration = Duration::from_millis(50);

/// A file that only its owner can read (on Unix: mode 0600, wider permissions are refused).
///
/// The file is replaced atomically: every reader sees either the old or the new content, even after a crash. Processes
/// that change the file take an exclusive lock on a second file in the same folder (`….lock`).
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("mgp-private-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// use std::time::Duration;
/// use mgp_types::PrivateFile;
///
/// let file = PrivateFile::new(folder.join("keys.json"), 1024);
/// assert_eq!(file.read().unwrap(), None);
/// let lock = file.lock(Duration::from_secs(5)).unwrap();
/// file.replace(&lock, b"{}").unwrap();
/// assert_eq!(file.read().unwrap().as_deref(), Some(&b"{}"[..]));
/// # std::fs::remove_dir_all(&folder).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrivateFile {
    path: PathBuf,
    max_bytes: u64,
}

/// The exclusive lock that a process must hold while it changes a private file. The lock is released when this value is
/// dropped, or when the process ends.
#[derive(Debug)]
#[must_use = "the lock is released when it is dropped"]
pub struct FileLock {
    _lock: File,
}

/// The error of an operation on a private file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrivateFileError {
    /// The operating system reported an error.
    #[error("`{path}` cannot be {verb}: {source}")]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The operation that failed, as a participle for the message, e.g. `written`.
        verb: &'static str,
        /// The error that the operating system reported.
        source: io::Error,
    },
    /// Users other than the owner can access the file.
    #[error(
        "`{path}` is open to others (mode {mode:o}), who may have read it; remove it, or `chmod 600` it"
    )]
    Exposed {
        /// The path of the file.
        path: PathBuf,
        /// The permission bits of the file.
        mode: u32,
    },
    /// The path names something other than a regular file.
    #[error("`{path}` is not a plain file; restore it from a back-up, or move it away")]
    NotPlain {
        /// The path of the file.
        path: PathBuf,
    },
    /// The file is longer than the limit that was given to [`PrivateFile::new`].
    #[error(
        "`{path}` is longer than {max_bytes} bytes, so this program did not write it; restore it from a back-up, or move it away"
    )]
    TooLong {
        /// The path of the file.
        path: PathBuf,
        /// The maximum length of the file, in bytes.
        max_bytes: u64,
    },
    /// Another process, or another handle of this process, held the lock for too long.
    #[error(
        "`{path}` could not be locked within {}, because {} holds it; try again, or end that process if it hangs",
        crate::duration_words(*.timeout), process_words(*.holder)
    )]
    Busy {
        /// The path of the lock.
        path: PathBuf,
        /// The time for which the caller waited for the lock.
        timeout: Duration,
        /// The id of the process that held the lock at the end of that time, if the system reports it.
        holder: Option<u32>,
    },
}

impl PrivateFile {
    /// Creates a handle for a path. Files longer than `max_bytes` are refused when read. The first `replace` creates
    /// the file, but not its folder.
    pub fn new(path: impl Into<PathBuf>, max_bytes: u64) -> Self {
        Self { path: path.into(), max_bytes }
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the content of the file, or `None` if the file does not exist.
    ///
    /// # Errors
    /// Returns any variant of [`PrivateFileError`] except [`Busy`](PrivateFileError::Busy).
    pub fn read(&self) -> Result<Option<Vec<u8>>, PrivateFileError> {
        let failed = failed(&self.path, "read");
        // Check the path first, because opening a pipe waits for another process.
        refuse_special(&self.path)?;
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        // Check the opened file instead of the path: the path might name another file by now.
        let metadata = file.metadata().map_err(&failed)?;
        check_access(&self.path, &metadata)?;
        let mut text = Vec::new();
        file.take(self.max_bytes.saturating_add(1)).read_to_end(&mut text).map_err(&failed)?;
        if text.len() as u64 > self.max_bytes {
            return Err(PrivateFileError::TooLong {
                path: self.path.clone(),
                max_bytes: self.max_bytes,
            });
        }
        Ok(Some(text))
    }

    /// Acquires the exclusive lock. Waits up to `timeout` while another process or handle holds it.
    ///
    /// # Errors
    /// Returns [`PrivateFileError::Busy`] if the lock is not free within `timeout`, or else the errors of
    /// [`try_lock`](Self::try_lock).
    pub fn lock(&self, timeout: Duration) -> Result<FileLock, PrivateFileError> {
        let mut waited = Duration::ZERO;
        loop {
            if let Some(lock) = self.try_lock("")? {
                return Ok(lock);
            }
            if waited >= timeout {
                let path = self.beside(".lock");
                let holder = lock_holder(&path);
                return Err(PrivateFileError::Busy { path, timeout, holder });
            }
            std::thread::sleep(LOCK_INTERVAL);
            waited += LOCK_INTERVAL;
        }
    }

    /// Acquires the exclusive lock and returns it; returns `None` if another process or handle holds the lock.
    ///
    /// Locks with different names are independent; [`lock`](Self::lock) waits for the lock with the empty name.
    ///
    /// # Errors
    /// Returns [`PrivateFileError::NotPlain`] or [`PrivateFileError::Io`] if the lock file cannot be used.
    pub fn try_lock(&self, name: &str) -> Result<Option<FileLock>, PrivateFileError> {
        let path = self.beside(&format!("{name}.lock"));
        let failed = failed(&path, "locked");
        refuse_special(&path)?;
        let lock = private().create(true).truncate(false).open(&path).map_err(&failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(FileLock { _lock: lock })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// Replaces the content of the file atomically.
    ///
    /// # Errors
    /// Returns [`PrivateFileError::Io`] if the content cannot be written; the old content is then unchanged.
    pub fn replace(&self, _lock: &FileLock, text: &[u8]) -> Result<(), PrivateFileError> {
        self.replace_after(text, |_| Ok(()))
    }

    /// Replaces the content atomically, like [`replace`](Self::replace), but keeps the owner, the group and the
    /// permissions of an existing file as far as this process is allowed to. If the group cannot be kept, the new group
    /// has no permissions.
    ///
    /// # Errors
    /// Returns [`PrivateFileError::Io`] if the content cannot be written; the old content is then unchanged.
    pub fn replace_keeping_mode(
        &self,
        _lock: &FileLock,
        text: &[u8],
    ) -> Result<(), PrivateFileError> {
        let old = match fs::metadata(&self.path) {
            Ok(old) => Some(old),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(&self.path, "read")(error)),
        };
        self.replace_after(text, |file| match &old {
            Some(old) => copy_access(old, file),
            None => Ok(()),
        })
    }

    /// Replaces the content atomically: writes a new file, calls `prepare` for it, and renames it to the path of the
    /// old file.
    fn replace_after(
        &self,
        text: &[u8],
        prepare: impl FnOnce(&File) -> io::Result<()>,
    ) -> Result<(), PrivateFileError> {
        let failed = failed(&self.path, "written");
        let fresh = self.beside(".new");
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            // The temporary file existed only if a process died while it wrote that file: this process holds the lock,
            // so no other process is writing the file now. Therefore the file could be removed.
            _ => {}
        }
        let written = private().create_new(true).open(&fresh).and_then(|mut file| {
            file.write_all(text)?;
            prepare(&file)?;
            file.sync_all()?;
            fs::rename(&fresh, &self.path)
        });
        if let Err(error) = written {
            let _ = fs::remove_file(&fresh);
            return Err(failed(error));
        }
        // Sync the folder, so that the new name of the file also survives a crash. On systems that cannot sync a
        // folder, this step is not needed.
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Ok(folder) = File::open(folder.unwrap_or(Path::new("."))) {
            let _ = folder.sync_all();
        }
        Ok(())
    }

    /// Returns a number that changes when the file is replaced or written or, on Unix, its permissions change; 0 if the
    /// file does not exist or cannot be examined.
    #[must_use]
    pub fn version(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |metadata| {
            let mut hasher = DefaultHasher::new();
            (metadata.len(), metadata.modified().ok()).hash(&mut hasher);
            identity(&metadata).hash(&mut hasher);
            hasher.finish()
        })
    }

    /// Returns the permission bits of a file if users other than the owner have access to it; always `None` outside
    /// Unix.
    #[must_use]
    pub fn exposed_mode(metadata: &Metadata) -> Option<u32> {
        exposed(metadata)
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut name: OsString = self.path.as_os_str().to_owned();
        name.push(ending);
        name.into()
    }
}

fn process_words(process: Option<u32>) -> String {
    process.map_or_else(|| "another process".to_owned(), |id| format!("process {id}"))
}

fn failed(path: &Path, verb: &'static str) -> impl Fn(io::Error) -> PrivateFileError {
    let path = path.to_owned();
    move |source| PrivateFileError::Io { path: path.clone(), verb, source }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Gives `file` the owner, the group and the permissions of the file that it replaces, as far as the operating system
/// permits this process to do so. If the group cannot be kept, the new group has no permissions.
///
/// # Errors
/// Returns the error of the operating system if the permissions cannot be set.
#[cfg(unix)]
pub fn copy_access(old: &Metadata, file: &File) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
    if fchown(file, Some(old.uid()), Some(old.gid())).is_err() {
        // Ignore the error. A user who is not allowed to give the file to its old owner may still be allowed to set the
        // group.
        let _ = fchown(file, None, Some(old.gid()));
    }
    let kept = if file.metadata()?.gid() == old.gid() { 0o777 } else { 0o707 };
    file.set_permissions(fs::Permissions::from_mode(old.permissions().mode() & kept))
}

/// Does nothing: on systems other than Unix, a file receives the access list of its folder.
///
/// # Errors
/// Returns no error.
#[cfg(not(unix))]
pub fn copy_access(_: &Metadata, _: &File) -> io::Result<()> {
    Ok(())
}

/// Creates a folder and its missing parents, to which no other user can write, whatever the umask of this process is.
/// Does nothing if the folder exists.
///
/// # Errors
/// Returns the error of the operating system if the folder cannot be created.
pub fn create_own_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o755);
    builder.create(folder)
}

/// Creates an empty file that only its owner can read; does nothing if the file exists.
#[cfg(feature = "sqlite")]
pub(crate) fn create(path: &Path) -> Result<(), PrivateFileError> {
    match private().create_new(true).open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(failed(path, "created")(error))
        }
        _ => Ok(()),
    }
}

/// Refuses a path that is not a regular file, or that other users can access. A missing file is accepted. The file
/// is not opened.
#[cfg(feature = "sqlite")]
pub(crate) fn check(path: &Path) -> Result<(), PrivateFileError> {
    match fs::metadata(path) {
        Ok(metadata) => check_access(path, &metadata),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(path, "read")(error)),
    }
}

/// Refuses a path that names anything but a regular file, e.g. a pipe or a folder. A missing file is accepted. The file
/// is not opened.
fn refuse_special(path: &Path) -> Result<(), PrivateFileError> {
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => {
            Err(PrivateFileError::NotPlain { path: path.to_owned() })
        }
        _ => Ok(()),
    }
}

fn check_access(path: &Path, metadata: &Metadata) -> Result<(), PrivateFileError> {
    let path = || path.to_owned();
    if !metadata.is_file() {
        return Err(PrivateFileError::NotPlain { path: path() });
    }
    match exposed(metadata) {
        Some(mode) => Err(PrivateFileError::Exposed { path: path(), mode }),
        None => Ok(()),
    }
}

#[cfg(unix)]
fn exposed(metadata: &Metadata) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = metadata.permissions().mode() & 0o7777;
    (mode & 0o077 != 0).then_some(mode)
}

/// Always returns `None`: systems other than Unix have no permission bits, but access lists that the owner of the
/// folder sets.
#[cfg(not(unix))]
fn exposed(_: &Metadata) -> Option<u32> {
    None
}

#[cfg(unix)]
fn identity(metadata: &Metadata) -> impl Hash {
    use std::os::unix::fs::MetadataExt as _;
    (metadata.ino(), metadata.ctime(), metadata.ctime_nsec(), metadata.mode())
}

#[cfg(not(unix))]
fn identity(metadata: &Metadata) -> impl Hash {
    metadata.created().ok()
}

/// Returns whether a path no longer names this file, because the file was removed or replaced. A process must keep the
/// file open, because the system can reuse the number of a removed file.
#[must_use]
pub fn is_other_file(own: &Metadata, path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(found) => !is_same_file(own, &found),
        // Ignore any other error, because it may be temporary, e.g. an error of a network drive.
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Returns whether both metadata are of the same file.
#[cfg(unix)]
#[must_use]
pub fn is_same_file(one: &Metadata, other: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Returns `true`, because on systems other than Unix the standard library cannot compare the identity of two files.
#[cfg(not(unix))]
#[must_use]
pub fn is_same_file(_: &Metadata, _: &Metadata) -> bool {
    true
}

/// Returns the path for the next back-up of a file, and the paths of the older back-ups that the caller must then
/// remove, so that at most ten remain.
///
/// # Errors
/// Returns an error if the folder cannot be read.
pub fn backup_paths(file: &Path) -> io::Result<(PathBuf, Vec<PathBuf>)> {
    let named = |number: u64| {
        let mut name = file.as_os_str().to_owned();
        name.push(format!(".bak{number}"));
        PathBuf::from(name)
    };
    let own = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let number = |name: &str| name.strip_prefix(own)?.strip_prefix(".bak")?.parse::<u64>().ok();
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut known = Vec::new();
    for entry in fs::read_dir(folder.unwrap_or(Path::new(".")))? {
        known.extend(entry?.file_name().to_str().and_then(number));
    }
    let next = known.iter().max().map_or(1, |last| last.saturating_add(1));
    known.retain(|number| number.saturating_add(MAX_BACKUPS) <= next);
    Ok((named(next), known.into_iter().map(named).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_BYTES: u64 = 100;
    const TIMEOUT: Duration = Duration::from_secs(30);

    struct Folder(mgp_testkit::TempDir);

    impl Folder {
        fn new() -> Self {
            Self(mgp_testkit::temp_dir())
        }

        fn file(&self) -> PrivateFile {
            PrivateFile::new(self.0.path().join("file"), MAX_BYTES)
        }
    }

    fn write(file: &PrivateFile, text: &[u8]) {
        file.replace(&file.lock(TIMEOUT).unwrap(), text).unwrap();
    }

    #[test]
    fn a_replacement_is_read_and_changes_the_version() {
        let folder = Folder::new();
        let file = folder.file();
        assert_eq!((file.read().unwrap(), file.version()), (None, 0));
        write(&file, b"one");
        let before = file.version();
        write(&file, b"two");
        assert_eq!(file.read().unwrap().as_deref(), Some(&b"two"[..]));
        assert_ne!(file.version(), before);
        assert!(!file.beside(".new").exists());
    }

    #[test]
    fn files_left_by_a_dead_process_do_not_block_others() {
        let folder = Folder::new();
        let file = folder.file();
        fs::write(file.beside(".new"), "half").unwrap();
        fs::write(file.beside(".lock"), "").unwrap();
        write(&file, b"whole");
        assert_eq!(file.read().unwrap().as_deref(), Some(&b"whole"[..]));
    }

    #[test]
    fn a_process_that_hangs_does_not_stop_others_for_ever() {
        let folder = Folder::new();
        let file = folder.file();
        let held = file.lock(TIMEOUT).unwrap();
        let refused = file.lock(Duration::from_millis(10)).unwrap_err();
        assert!(matches!(refused, PrivateFileError::Busy { .. }), "{refused}");
        let expected = [process_words(None), process_words(Some(std::process::id()))]
            .map(|process| format!(", because {process} holds it; try again, or end that"));
        assert!(expected.iter().any(|text| refused.to_string().contains(text)), "{refused}");
        assert!(file.try_lock("").unwrap().is_none());
        assert!(file.try_lock(".other").unwrap().is_some());
        drop(held);
        assert!(file.try_lock("").unwrap().is_some());
    }

    #[test]
    fn long_files_and_folders_are_refused() {
        let folder = Folder::new();
        let file = folder.file();
        write(&file, &[b'x'; 101]);
        let refused = file.read().unwrap_err();
        assert!(
            matches!(refused, PrivateFileError::TooLong { max_bytes: MAX_BYTES, .. }),
            "{refused}"
        );
        write(&file, &[b'x'; 100]);
        assert!(file.read().is_ok());
        let own = PrivateFile::new(folder.0.path(), MAX_BYTES);
        assert!(own.read().is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_in_place_of_a_file_or_its_lock_is_refused_without_waiting() {
        let folder = Folder::new();
        let file = folder.file();
        for path in [file.path().to_owned(), file.beside(".lock")] {
            assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
        }
        for refused in [file.read().map(drop), file.lock(TIMEOUT).map(drop)] {
            assert!(matches!(refused, Err(PrivateFileError::NotPlain { .. })), "{refused:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_replacement_can_keep_the_mode() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = Folder::new();
        let file = folder.file();
        let lock = file.lock(TIMEOUT).unwrap();
        for mode in [0o600, 0o644, 0o640] {
            file.replace_keeping_mode(&lock, b"new").unwrap();
            let found = fs::metadata(file.path()).unwrap().permissions().mode() & 0o777;
            assert_eq!(found, mode, "{found:o}");
            let next = if mode == 0o600 { 0o644 } else { 0o640 };
            fs::set_permissions(file.path(), fs::Permissions::from_mode(next)).unwrap();
        }
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_may_use_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = Folder::new();
        let file = folder.file();
        write(&file, b"secret");
        for path in [file.path().to_owned(), file.beside(".lock")] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        for open in [0o644, 0o640, 0o604, 0o620, 0o601] {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(open)).unwrap();
            let refused = file.read().unwrap_err();
            assert!(
                matches!(refused, PrivateFileError::Exposed { mode, .. } if mode == open),
                "{refused}"
            );
        }
    }
}
