//! Streams that can continue after a disconnection (proposal 8, `checkpoint`).
//!
//! The server seals places in its result. A client whose connection was lost sends the call again with the last such
//! place.

mod layer;
mod received;
mod resume;

pub use layer::{CheckpointLayer, CheckpointService, Checkpoints};
pub use resume::{ResumeLayer, ResumeService};
