//! The tools of all servers: what is listed, under which name and number, in which category (MGP §16.4).
//!
//! Applies to: both.

mod allowed;
mod bitmap;
#[expect(clippy::module_inception, reason = "the catalogue is what the folder is about")]
mod catalog;
mod category;
mod category_words;
mod chunks;
mod entry;
mod filter;
mod given;
mod labels;
mod listed;
mod names;
mod pool;
mod tree;

pub use allowed::{Allowed, AllowedKey, Everything, Extent};
pub(crate) use bitmap::Bitmap;
pub(crate) use catalog::{Catalog, LONGEST_ID, Record, Registered};
pub(crate) use category::{all_canonical, canonical, derive, is_in};
pub(crate) use chunks::{CHUNK, Chunks};
pub(crate) use entry::{Decided, Entry, Server, Text};
pub(crate) use filter::Test;
pub use given::{ServerEntry, ToolEntry};
pub(crate) use labels::{LabelMaker, Labels};
pub use listed::Listed;
pub(crate) use pool::Pool;
pub use tree::{CategoryNode, CategoryTree};

/// The number of a tool: stable while it is in the index, given to another one after.
pub(crate) type Slot = u32;

/// The number of a server, the same way.
pub(crate) type ServerNumber = u32;
