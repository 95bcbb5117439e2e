//! Temporary folders.

use tempfile::TempDir;

/// Creates an empty folder that is removed when the returned guard is dropped.
///
/// # Panics
/// Panics if the system's temporary folder cannot be written.
#[must_use]
pub fn temp_dir() -> TempDir {
    tempfile::Builder::new().prefix("mgp-").tempdir().expect("the temporary folder is writable")
}
