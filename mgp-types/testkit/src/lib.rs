//! Helpers shared by the tests of the workspace; a dev-dependency that is never published.
//!
//! It depends on no crate of this workspace, so that the tests of every crate can use it.

mod folder;
mod program;
mod until;

pub use folder::temp_dir;
pub use program::{example, program};
pub use tempfile::TempDir;
pub use until::{until, until_blocking};
