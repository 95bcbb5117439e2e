//! The tools of all servers: their definitions, names, numbers and categories (MGP §16.4).

mod allowed;
mod bitmap;
#[expect(clippy::module_inception, reason = "the catalogue is what the folder is about")]
mod catalog;
mod category;
mod category_tree;
mod category_words;
mod chunks;
mod entry;
mod filter;
mod indexed_tool;
mod interner;
mod labels;
mod name_index;
mod server_entry;
mod tool_feature;

pub use allowed::{AllTools, Allowed, AllowedKey, Extent};
pub(crate) use bitmap::Bitmap;
pub(crate) use catalog::{Catalog, MAX_SERVER_ID_BYTES, Record, ServerRecord};
pub(crate) use category::{UNCATEGORISED, all_canonical, canonical, derive, is_in};
pub(crate) use category_tree::{CategoryNode, CategoryTree};
pub(crate) use chunks::{CHUNK_LEN, ChunkedList};
pub(crate) use entry::{Entry, SecuritySource, Server, Text};
pub(crate) use filter::{FilterTest, cost_hints};
pub use indexed_tool::IndexedTool;
pub(crate) use interner::Interner;
pub(crate) use labels::{LabelInterner, Labels};
pub use server_entry::{ServerEntry, ToolEntry};
pub use tool_feature::ToolFeature;
pub(crate) use tool_feature::ToolFeatures;

/// The number of a tool. It is stable while the tool is in the index, and can be reused after the tool is removed.
pub(crate) type Slot = u32;

/// The number of a server. It is stable while the server is in the index, and can be reused after the server is
/// removed.
pub(crate) type ServerNumber = u32;
