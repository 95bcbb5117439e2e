//! The stamp of a file: metadata that reveals a change of the file (MGP §15.2).

use std::fs;
use std::path::Path;
use std::time::SystemTime;

/// The values whose change reveals a changed file: device, inode, size, modification time, and the nanoseconds of the
/// change time. `None` if there is no readable file.
pub(crate) type Stamp = Option<(u64, u64, u64, Option<SystemTime>, i64)>;

/// Returns the stamp of a file, which changes both when an editor writes into the file and when it replaces the file.
pub(crate) fn stamp(path: &Path) -> Stamp {
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
