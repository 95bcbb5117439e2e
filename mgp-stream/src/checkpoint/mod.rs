//! Streams that can continue after a disconnection (extension `checkpoint`).
//!
//! The server sends checkpoints with its chunks: sealed descriptions of the position that the tool has reached in its
//! result. A client whose connection was lost sends the call again with the last checkpoint.

mod layer;
mod received;
mod resume;

pub use layer::{CheckpointLayer, CheckpointService, Checkpoints};
pub use resume::{ResumeLayer, ResumeService};
