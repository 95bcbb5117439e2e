//! Whether a file is still the one it was (MGP §15.2).
//!
//! Applies to: both.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

/// Which file it is, and when it was written; none where there is none.
pub(super) type Stamp = Option<(u64, u64, u64, Option<SystemTime>, i64)>;

/// The stamp of a file: editors write into it, or put another one in its place.
pub(super) fn stamp(path: &Path) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    let (device, inode, changed) = identity(&metadata);
    Some((device, inode, metadata.len(), metadata.modified().ok(), changed))
}

#[cfg(unix)]
fn identity(metadata: &fs::Metadata) -> (u64, u64, i64) {
    use std::os::unix::fs::MetadataExt as _;
    (metadata.dev(), metadata.ino(), metadata.ctime_nsec())
}

#[cfg(not(unix))]
fn identity(_: &fs::Metadata) -> (u64, u64, i64) {
    (0, 0, 0)
}
