//! The tools of all servers: what is listed, under which name and number, in which category (MGP §16.4).
//!
//! Applies to: both.

mod allowed;
mod bitmap;
mod chunks;
mod entry;
mod given;
mod listed;

pub use allowed::{Allowed, AllowedKey, Everything, Extent};
pub(crate) use bitmap::Bitmap;
pub(crate) use chunks::{CHUNK, Chunks};
pub use given::{ServerEntry, ToolEntry};
pub use listed::Listed;

/// The number of a tool: stable while it is in the index, given to another one after.
pub(crate) type Slot = u32;
