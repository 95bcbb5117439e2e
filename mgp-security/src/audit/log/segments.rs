//! The files of a log, numbered by their first record, and the lock that one writer holds.
//!
//! Applies to: both.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::error::LogError;

/// How long is waited for one who has the log, and between two looks: a process that was killed lets go of it a moment
/// after it is seen no more, with the last of its threads.
const LOOKS: u32 = 25;
const LOOK: Duration = Duration::from_millis(10);

const DIRECTORY: u32 = 0o700;
const FILE: u32 = 0o600;

/// Where lines are written; tests put one that fails in its place.
pub(super) trait Disk: Send {
    /// Hands bytes to the system; where it fails, some of them may be there.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Cuts the newest file back to a length.
    fn cut(&mut self, length: u64) -> io::Result<()>;

    /// Brings the newest file to the disk, and its name.
    fn sync(&mut self) -> io::Result<()>;

    /// Begins a file with a record.
    fn next(&mut self, first: u64) -> io::Result<()>;

    /// Removes the files that end before a record.
    fn remove_before(&mut self, from: u64) -> io::Result<()>;
}

/// One file of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// The number of its first record.
    pub(super) first: u64,
    pub(super) path: PathBuf,
}

/// The files of one log in a directory.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) dir: PathBuf,
    pub(super) name: String,
}

/// The right to write a log; it ends with the process.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

// === impl Place ===

impl Place {
    pub(super) fn new(dir: &Path, name: &str) -> Result<Self, LogError> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if name.is_empty() || name.len() > 64 || !name.bytes().all(fits) {
            return Err(LogError::Name(name.to_owned()));
        }
        Ok(Self { dir: dir.to_owned(), name: name.to_owned() })
    }

    /// A file beside those of the log.
    pub(super) fn beside(&self, ending: &str) -> PathBuf {
        self.dir.join(format!("{}.{ending}", self.name))
    }

    pub(super) fn segment(&self, first: u64) -> Segment {
        Segment { first, path: self.beside(&format!("{first:016}.jsonl")) }
    }

    /// The files that are there, oldest first.
    pub(super) fn segments(&self) -> io::Result<Vec<Segment>> {
        let mut segments = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let name = entry?.file_name();
            let number = name
                .to_str()
                .and_then(|name| name.strip_prefix(&self.name)?.strip_prefix('.'))
                .and_then(|rest| rest.strip_suffix(".jsonl"))
                .filter(|number| number.len() >= 16);
            if let Some(first) = number.and_then(|number| number.parse().ok()) {
                segments.push(self.segment(first));
            }
        }
        segments.sort_by_key(|segment| segment.first);
        Ok(segments)
    }

    /// Makes the directory private where it is new, and sees to it that it is.
    pub(super) fn prepare(&self) -> Result<(), LogError> {
        private_folder(&self.dir)?;
        for segment in self.segments().map_err(LogError::io(&self.dir, "read"))? {
            refuse_exposed(&segment.path, FILE)?;
        }
        Ok(())
    }

    /// Takes the log for this process; blocks for a moment where somebody has it.
    pub(super) fn lock(&self) -> Result<Lock, LogError> {
        let path = self.beside("lock");
        let file = private().write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(LogError::io(&path, "opened"))?;
        for _ in 0..LOOKS {
            match file.try_lock() {
                Ok(()) => return Ok(Lock { _file: file }),
                Err(TryLockError::WouldBlock) => thread::sleep(LOOK),
                Err(TryLockError::Error(error)) => {
                    return Err(LogError::io(&path, "locked")(error));
                }
            }
        }
        Err(LogError::Taken { dir: self.dir.clone(), name: self.name.clone() })
    }

    /// Brings the names of files to the disk; where directories cannot be synced, the system sees to it.
    fn sync_names(&self) {
        if let Ok(dir) = File::open(&self.dir) {
            let _ = dir.sync_all();
        }
    }
}

/// The newest file of a log, as it is written.
#[derive(Debug)]
pub(super) struct Segments {
    place: Place,
    file: File,
    /// Whether its name may not have reached the disk yet.
    is_new: bool,
}

impl Segments {
    /// Goes on with a file, or begins it.
    pub(super) fn open(place: &Place, first: u64) -> io::Result<Self> {
        let path = place.segment(first).path;
        let file = private().write(true).create(true).truncate(false).open(path)?;
        let mut this = Self { place: place.clone(), file, is_new: true };
        this.file.seek(SeekFrom::End(0))?;
        Ok(this)
    }
}

impl Disk for Segments {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        self.file.seek(SeekFrom::Start(length)).map(drop)
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.is_new {
            self.place.sync_names();
            self.is_new = false;
        }
        self.file.sync_data()
    }

    fn next(&mut self, first: u64) -> io::Result<()> {
        *self = Self::open(&self.place, first)?;
        Ok(())
    }

    fn remove_before(&mut self, from: u64) -> io::Result<()> {
        let segments = self.place.segments()?;
        for pair in segments.windows(2) {
            if pair[1].first <= from {
                fs::remove_file(&pair[0].path)?;
            }
        }
        Ok(())
    }
}

/// Makes a folder that only its owner may use where it is missing or empty, and refuses one that others may use.
pub(crate) fn private_folder(path: &Path) -> Result<(), LogError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, DIRECTORY);
    builder.create(path).map_err(LogError::io(path, "made"))?;
    let mut entries = fs::read_dir(path).map_err(LogError::io(path, "read"))?;
    if entries.next().is_none() {
        make_private(path).map_err(LogError::io(path, "made private"))?;
    }
    refuse_exposed(path, DIRECTORY)
}

/// How files are opened that only their owner may use.
pub(super) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, FILE);
    options
}

/// Refuses what others than the owner may use.
pub(super) fn refuse_exposed(path: &Path, private: u32) -> Result<(), LogError> {
    let metadata = fs::metadata(path).map_err(LogError::io(path, "read"))?;
    match exposed(&metadata) {
        Some(mode) => Err(LogError::Exposed { path: path.to_owned(), mode, private }),
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
fn make_private(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(dir, fs::Permissions::from_mode(DIRECTORY))
}

#[cfg(not(unix))]
fn make_private(_: &Path) -> io::Result<()> {
    Ok(())
}
