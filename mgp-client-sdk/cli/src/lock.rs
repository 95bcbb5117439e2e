//! One kernel on a state folder, and one at a time who starts it.
//!
//! Applies to: both.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;

use crate::exit::Ended;
use crate::state::unusable;

/// A lock; it ends when this is dropped, or with the process.
#[derive(Debug)]
#[must_use = "the lock ends when it is dropped"]
pub(crate) struct Lock(File);

/// What trying to lock gave.
#[derive(Debug)]
pub(crate) enum Locked {
    Ours(Lock),
    /// Somebody has it; their process, if they wrote it down.
    Theirs(Option<u32>),
}

/// The lock of the kernel that uses a folder.
pub(crate) fn kernel(folder: &Path) -> Ended<Locked> {
    try_lock(&folder.join("kernel.lock"))
}

/// The lock of whoever starts a kernel.
pub(crate) fn start(folder: &Path) -> Ended<Locked> {
    try_lock(&folder.join("start.lock"))
}

fn try_lock(path: &Path) -> Ended<Locked> {
    let failed = |error| unusable(path, &error);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {
            // For people who look, and for the message to who comes second.
            let written = file.set_len(0).and_then(|()| file.rewind());
            written.and_then(|()| writeln!(file, "{}", std::process::id())).map_err(failed)?;
            Ok(Locked::Ours(Lock(file)))
        }
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            let read = file.take(32).read_to_string(&mut text);
            Ok(Locked::Theirs(read.ok().and_then(|_| text.trim().parse().ok())))
        }
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A descriptor that a child inherited by mistake would hold it on.
        let _ = self.0.unlock();
    }
}
