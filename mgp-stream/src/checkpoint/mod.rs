//! Streams that go on after a disconnect (proposal 8, `checkpoint`).
//!
//! The server seals places in its result; a client whose connection was lost sends the call again with the last one.

mod layer;
mod received;
mod resume;

pub use layer::{CheckpointLayer, CheckpointService, Checkpoints};
pub use resume::{ResumeLayer, ResumeService};
