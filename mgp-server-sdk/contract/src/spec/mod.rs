//! Specifications of tools in Markdown, with eight parts per tool.

mod document;
mod parts;
mod write;

pub use document::{SpecDocument, read_spec};
pub use write::write_spec;
