//! A file that only its owner may read, for keys and tokens.
//!
//! Everything here blocks.
//!
//! Applies to: both.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long is waited between two looks at a lock.
const PAUSE: Duration = Duration::from_millis(50);

/// A file that only its owner may read (on Unix: mode 0600, anything wider is refused).
///
/// It is replaced as a whole, so that a crash leaves the old one or the new one and no reader sees half of one.
/// Processes that change it take turns, by a lock on a file beside it (`….lock`).
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("mgp-private-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// use std::time::Duration;
/// use mgp_types::PrivateFile;
///
/// let file = PrivateFile::new(folder.join("keys.json"), 1024);
/// assert_eq!(file.read().unwrap(), None);
/// let turn = file.turn(Duration::from_secs(5)).unwrap();
/// file.replace(&turn, b"{}").unwrap();
/// assert_eq!(file.read().unwrap().as_deref(), Some(&b"{}"[..]));
/// # std::fs::remove_dir_all(&folder).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrivateFile {
    path: PathBuf,
    longest: u64,
}

/// The right to change a file; it ends when this is dropped, or with the process.
#[derive(Debug)]
#[must_use = "the turn ends when it is dropped"]
pub struct Turn {
    _lock: File,
}

/// Why a private file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrivateFileError {
    /// The system refused.
    #[error("`{path}` cannot be {verb}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        verb: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// Others than the owner may use the file.
    #[error(
        "`{path}` is open to others (mode {mode:o}), who may know what is in it: remove it, or `chmod 600` it"
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// There is something else in the place of the file.
    #[error("`{path}` is not a plain file")]
    NotPlain {
        /// The file.
        path: PathBuf,
    },
    /// The file is longer than anything we write.
    #[error("`{path}` is longer than {longest} bytes, so it is not what this program writes")]
    TooLong {
        /// The file.
        path: PathBuf,
        /// How long it may be.
        longest: u64,
    },
    /// Another process kept the file to itself for too long.
    #[error("another process has held `{path}` for {patience:?}; look for one that hangs")]
    Busy {
        /// The lock.
        path: PathBuf,
        /// How long was waited.
        patience: Duration,
    },
}

// === impl PrivateFile ===

impl PrivateFile {
    /// The file at a path, which is never read beyond a length; it is made when it is first replaced, its folder is not.
    pub fn new(path: impl Into<PathBuf>, longest: u64) -> Self {
        Self { path: path.into(), longest }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads it; `None` where there is none.
    ///
    /// # Errors
    /// All but [`PrivateFileError::Busy`].
    pub fn read(&self) -> Result<Option<Vec<u8>>, PrivateFileError> {
        let failed = failed(&self.path, "read");
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        // Of what was opened, not of what the path may name by now.
        let metadata = file.metadata().map_err(&failed)?;
        suits(&self.path, &metadata)?;
        let mut text = Vec::new();
        file.take(self.longest.saturating_add(1)).read_to_end(&mut text).map_err(&failed)?;
        if text.len() as u64 > self.longest {
            return Err(PrivateFileError::TooLong {
                path: self.path.clone(),
                longest: self.longest,
            });
        }
        Ok(Some(text))
    }

    /// Waits until no other process changes it.
    ///
    /// # Errors
    /// [`PrivateFileError::Busy`] when that takes too long; [`PrivateFileError::Io`].
    pub fn turn(&self, patience: Duration) -> Result<Turn, PrivateFileError> {
        let mut waited = Duration::ZERO;
        loop {
            if let Some(turn) = self.try_turn("")? {
                return Ok(turn);
            }
            if waited >= patience {
                return Err(PrivateFileError::Busy { path: self.beside(".lock"), patience });
            }
            std::thread::sleep(PAUSE);
            waited += PAUSE;
        }
    }

    /// Takes a turn, unless somebody has it; turns of different names are independent, and the nameless one is that of
    /// [`turn`](Self::turn).
    ///
    /// # Errors
    /// [`PrivateFileError::Io`].
    pub fn try_turn(&self, name: &str) -> Result<Option<Turn>, PrivateFileError> {
        let path = self.beside(&format!("{name}.lock"));
        let failed = failed(&path, "locked");
        let lock = private().create(true).truncate(false).open(&path).map_err(&failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(Turn { _lock: lock })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// Puts a new file in the place of the old one.
    ///
    /// # Errors
    /// [`PrivateFileError::Io`]; the old one is there still.
    pub fn replace(&self, _turn: &Turn, text: &[u8]) -> Result<(), PrivateFileError> {
        let failed = failed(&self.path, "written");
        let fresh = self.beside(".new");
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            // What is left was left by a process that died: the turn is ours.
            _ => {}
        }
        let written = private().create_new(true).open(&fresh).and_then(|mut file| {
            file.write_all(text)?;
            file.sync_all()?;
            fs::rename(&fresh, &self.path)
        });
        if let Err(error) = written {
            let _ = fs::remove_file(&fresh);
            return Err(failed(error));
        }
        // The new name must survive a crash as well; where folders cannot be synced, the system sees to it.
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Ok(folder) = File::open(folder.unwrap_or(Path::new("."))) {
            let _ = folder.sync_all();
        }
        Ok(())
    }

    /// A number that changes when the file is replaced, written or opened to others; zero where there is none.
    #[must_use]
    pub fn stamp(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |metadata| {
            let mut hasher = DefaultHasher::new();
            (metadata.len(), metadata.modified().ok()).hash(&mut hasher);
            identity(&metadata).hash(&mut hasher);
            hasher.finish()
        })
    }

    /// Returns the permission bits of a file or folder that others than its owner may use; always `None` outside Unix.
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

fn failed(path: &Path, verb: &'static str) -> impl Fn(io::Error) -> PrivateFileError {
    let path = path.to_owned();
    move |source| PrivateFileError::Io { path: path.clone(), verb, source }
}

/// How files are opened that only their owner may read.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes an empty file that only its owner may read, unless there is one; nothing else is opened.
#[cfg(feature = "sqlite")]
pub(crate) fn create(path: &Path) -> Result<(), PrivateFileError> {
    match private().create_new(true).open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(failed(path, "made")(error))
        }
        _ => Ok(()),
    }
}

/// Refuses what is no plain file or may be used by others, without opening it; where there is none, all is well.
#[cfg(feature = "sqlite")]
pub(crate) fn check(path: &Path) -> Result<(), PrivateFileError> {
    match fs::metadata(path) {
        Ok(metadata) => suits(path, &metadata),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(path, "read")(error)),
    }
}

fn suits(path: &Path, metadata: &Metadata) -> Result<(), PrivateFileError> {
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

/// Rights are lists there, which the folder's owner sets.
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const LONGEST: u64 = 100;
    const PATIENCE: Duration = Duration::from_secs(30);

    /// A folder of its own for each test, gone with it.
    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Self {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let (process, next) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(format!("mgp-private-file-{process}-{next}"));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn file(&self) -> PrivateFile {
            PrivateFile::new(self.0.join("file"), LONGEST)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn write(file: &PrivateFile, text: &[u8]) {
        file.replace(&file.turn(PATIENCE).unwrap(), text).unwrap();
    }

    #[test]
    fn what_replaces_a_file_is_read_and_changes_its_stamp() {
        let folder = Folder::new();
        let file = folder.file();
        assert_eq!((file.read().unwrap(), file.stamp()), (None, 0));
        write(&file, b"one");
        let before = file.stamp();
        write(&file, b"two");
        assert_eq!(file.read().unwrap().as_deref(), Some(&b"two"[..]));
        assert_ne!(file.stamp(), before);
        assert!(!file.beside(".new").exists());
    }

    #[test]
    fn what_a_dead_process_left_is_in_nobodys_way() {
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
        let held = file.turn(PATIENCE).unwrap();
        let refused = file.turn(Duration::from_millis(10)).unwrap_err();
        assert!(matches!(refused, PrivateFileError::Busy { .. }), "{refused}");
        assert!(file.try_turn("").unwrap().is_none());
        assert!(file.try_turn(".other").unwrap().is_some());
        drop(held);
        assert!(file.try_turn("").unwrap().is_some());
    }

    #[test]
    fn what_is_too_long_or_no_file_is_refused() {
        let folder = Folder::new();
        let file = folder.file();
        write(&file, &[b'x'; 101]);
        let refused = file.read().unwrap_err();
        assert!(matches!(refused, PrivateFileError::TooLong { longest: LONGEST, .. }), "{refused}");
        write(&file, &[b'x'; 100]);
        assert!(file.read().is_ok());
        let own = PrivateFile::new(folder.0.clone(), LONGEST);
        assert!(own.read().is_err());
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
