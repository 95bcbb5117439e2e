//! The index as a whole: one handle over tools, words and vectors (MGP §16.4).
//!
//! Applies to: both.

mod again;
mod builder;
mod change;
mod definition;
mod embedding;
#[cfg(feature = "sqlite")]
mod keeping;
mod limits;
mod numbers;
mod put;
mod searching;
mod seen;
mod sets;
mod shared;
mod snapshot;
mod stats;
#[cfg(test)]
mod tests;
mod texts;
mod tool_index;
mod trees;
mod writer;

pub use builder::ToolIndexBuilder;
pub use limits::IndexLimits;
pub use put::{Put, RefusedTool, ToolRefusal};
pub(crate) use seen::Counted;
pub(crate) use shared::Shared;
pub(crate) use snapshot::Snapshot;
pub use stats::Stats;
pub use tool_index::{Resolved, ToolIndex};
