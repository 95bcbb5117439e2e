//! What the tests of the workspace share; never published, and a dev-dependency only.
//!
//! It depends on no crate of ours, so that the tests of every crate can use it.

mod until;

pub use tempfile::TempDir;
pub use until::{until, until_blocking};

/// Creates an empty folder that is removed when the returned guard is dropped.
///
/// # Panics
/// If the system's temporary folder cannot be written.
#[must_use]
pub fn temp_dir() -> TempDir {
    tempfile::Builder::new().prefix("mgp-").tempdir().expect("the temporary folder is writable")
}
