//! Streams that can continue after a disconnection (proposal 8, `checkpoint`).
//!
//! The server sends checkpoints with its chunks: sealed descriptions of the place that the tool has reached in its
//! result. A client whose connection was lost sends the call again with the last checkpoint.

mod layer;
mod received;
mod resume;

pub use layer::{CheckpointLayer, CheckpointService, Checkpoints};
pub use resume::{ResumeLayer, ResumeService};
