//! What the tests of the workspace share; never published, and a dev-dependency only.
//!
//! It depends on no crate of ours, so that the tests of every crate can use it.

mod folder;
mod program;
mod until;

pub use folder::temp_dir;
pub use program::program;
pub use tempfile::TempDir;
pub use until::{until, until_blocking};
