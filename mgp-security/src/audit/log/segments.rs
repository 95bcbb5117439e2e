//! The segment files of a log, each named after the number of its first record, and the lock that a writer holds.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use mgp_types::{PrivateFile, is_same_file};

use super::error::LogError;

/// The number of attempts to acquire the lock, and the delay between them. Several attempts are needed because a killed
/// process holds its lock until its last thread has ended, shortly after it has disappeared from the process list.
const LOCK_ATTEMPTS: u32 = 25;
const LOCK_RETRY_DELAY: Duration = Duration::from_millis(10);

const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// The file to which lines are written; tests replace it by a file that fails.
pub(super) trait Disk: Send {
    /// Appends bytes. If this fails, some of the bytes may have been written.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Truncates the newest file to a length.
    fn cut(&mut self, length: u64) -> io::Result<()>;

    /// Syncs the content of the newest file, and its directory entry, to the disk.
    fn sync(&mut self) -> io::Result<()>;

    /// Begins a new file, whose first record has the given number.
    fn next(&mut self, first: u64) -> io::Result<()>;

    /// Removes the files that contain only records with numbers below `from`.
    fn remove_before(&mut self, from: u64) -> io::Result<()>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// The number of the first record in the file.
    pub(super) first: u64,
    pub(super) path: PathBuf,
}

#[derive(Clone, Debug)]
pub(super) struct LogPlace {
    pub(super) dir: PathBuf,
    pub(super) name: String,
}

/// The exclusive right to write a log. The operating system releases it when the process ends.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl LogPlace {
    pub(super) fn new(dir: &Path, name: &str) -> Result<Self, LogError> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if name.is_empty() || name.len() > 64 || !name.bytes().all(fits) {
            return Err(LogError::Name(name.to_owned()));
        }
        Ok(Self { dir: dir.to_owned(), name: name.to_owned() })
    }

    /// Returns the path of the log's file with this ending, e.g. `head` or `lock`.
    pub(super) fn beside(&self, ending: &str) -> PathBuf {
        self.dir.join(format!("{}.{ending}", self.name))
    }

    pub(super) fn segment(&self, first: u64) -> Segment {
        Segment { first, path: self.beside(&format!("{first:016}.jsonl")) }
    }

    /// Lists the segments, oldest first.
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
                let segment = self.segment(first);
                refuse_special(&segment.path)?;
                segments.push(segment);
            }
        }
        segments.sort_by_key(|segment| segment.first);
        Ok(segments)
    }

    /// Creates the directory if it is missing, and checks that no other user can access the directory or its files.
    pub(super) fn prepare(&self) -> Result<(), LogError> {
        private_folder(&self.dir)?;
        self.refuse_exposed_files()
    }

    fn refuse_exposed_files(&self) -> Result<(), LogError> {
        for segment in self.segments().map_err(LogError::io(&self.dir, "read"))? {
            refuse_exposed(&segment.path, FILE_MODE)?;
        }
        Ok(())
    }

    /// Acquires the lock. Blocks for a short time if another process holds it.
    pub(super) fn lock(&self) -> Result<Lock, LogError> {
        let path = self.beside("lock");
        let file = refuse_special(&path)
            .and_then(|()| private().write(true).create(true).truncate(false).open(&path));
        let file = file.map_err(LogError::io(&path, "opened"))?;
        for _ in 0..LOCK_ATTEMPTS {
            match file.try_lock() {
                Ok(()) => return Ok(Lock { _file: file }),
                Err(TryLockError::WouldBlock) => thread::sleep(LOCK_RETRY_DELAY),
                Err(TryLockError::Error(error)) => {
                    return Err(LogError::io(&path, "locked")(error));
                }
            }
        }
        Err(LogError::InUse { dir: self.dir.clone(), name: self.name.clone() })
    }

    /// Syncs the directory, and so the names of its files, to the disk. Failures are ignored: systems that cannot sync
    /// a directory on request do it by themselves.
    fn sync_names(&self) {
        if let Ok(dir) = File::open(&self.dir) {
            let _ = dir.sync_all();
        }
    }
}

/// The newest segment, open for writing.
#[derive(Debug)]
pub(super) struct SegmentFile {
    place: LogPlace,
    /// The absolute path of the file.
    path: PathBuf,
    file: File,
    /// `true` if the directory entry of the file might not be on the disk yet.
    is_new: bool,
}

impl SegmentFile {
    /// Opens a segment for appending, or creates it.
    pub(super) fn open(place: &LogPlace, first: u64) -> io::Result<Self> {
        let path = std::path::absolute(place.segment(first).path)?;
        let file = private().write(true).create(true).truncate(false).open(&path)?;
        let mut this = Self { place: place.clone(), path, file, is_new: true };
        this.file.seek(SeekFrom::End(0))?;
        Ok(this)
    }

    /// Returns an error if another program has removed, replaced or shortened the file, to which `length` bytes were
    /// written. Further records would be lost when the log is closed.
    fn refuse_lost(&self, length: u64) -> io::Result<()> {
        let own = self.file.metadata()?;
        let is_lost = match fs::metadata(&self.path) {
            Ok(found) => own.len() < length || !is_same_file(&own, &found),
            Err(error) if error.kind() == ErrorKind::NotFound => true,
            Err(error) => return Err(error),
        };
        if !is_lost {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "the file of the audit log was removed, replaced or shortened: `{}`; move it back, or stop this program, and restore the file or continue with a log in another directory",
            self.path.display()
        )))
    }
}

impl Disk for SegmentFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let length = self.file.stream_position()?;
        self.refuse_lost(length)?;
        self.file.write_all(bytes)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.refuse_lost(length)?;
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
        let length = self.file.stream_position()?;
        self.refuse_lost(length)?;
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

/// Makes sure that a folder is private: creates a missing folder, makes an empty folder private, and refuses a folder
/// that has content and is not private.
pub(crate) fn private_folder(path: &Path) -> Result<(), LogError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, DIRECTORY_MODE);
    builder.create(path).map_err(LogError::io(path, "made"))?;
    let mut entries = fs::read_dir(path).map_err(LogError::io(path, "read"))?;
    if entries.next().is_none() {
        make_private(path).map_err(LogError::io(path, "made private"))?;
    }
    refuse_exposed(path, DIRECTORY_MODE)
}

/// Returns an error if other users can access the directory or the files of a log.
#[cfg(feature = "sqlite")]
pub(crate) fn refuse_others(dir: &Path, name: &str) -> Result<(), LogError> {
    refuse_exposed(dir, DIRECTORY_MODE)?;
    LogPlace::new(dir, name)?.refuse_exposed_files()
}

/// Returns an error if a path names a pipe, a folder or the like, because opening a pipe waits for another process. A
/// missing file is accepted.
fn refuse_special(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => {
            Err(io::Error::other(format!("`{}` is not a plain file", path.display())))
        }
        _ => Ok(()),
    }
}

/// Returns options for creating files that only their owner can access.
pub(super) fn private() -> OpenOptions {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes of files"))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, FILE_MODE);
    options
}

/// Returns an error if other users can access a file or folder.
pub(super) fn refuse_exposed(path: &Path, private: u32) -> Result<(), LogError> {
    let metadata = fs::metadata(path).map_err(LogError::io(path, "read"))?;
    match PrivateFile::exposed_mode(&metadata) {
        Some(mode) => Err(LogError::Exposed { path: path.to_owned(), mode, private }),
        None => Ok(()),
    }
}

#[cfg(unix)]
fn make_private(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(dir, fs::Permissions::from_mode(DIRECTORY_MODE))
}

#[cfg(not(unix))]
fn make_private(_: &Path) -> io::Result<()> {
    Ok(())
}
