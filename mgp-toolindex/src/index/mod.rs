//! The index as a whole: one handle to the catalogue of tools, the keyword index and the vectors (MGP §16.4).

mod builder;
mod change;
#[cfg(feature = "sqlite")]
mod database;
mod definition;
mod embedding;
mod limits;
mod put_report;
mod search;
#[cfg(feature = "sqlite")]
mod server_change;
mod set_values;
mod shared;
mod snapshot;
mod stats;
#[cfg(test)]
mod tests;
mod tool_index;
mod tool_sets;
mod tool_source;
mod tools;
mod writer;

pub use builder::ToolIndexBuilder;
pub use limits::IndexLimits;
pub use put_report::{PutReport, RefusedTool, ToolRefusal};
pub(crate) use shared::SharedIndex;
pub(crate) use snapshot::Snapshot;
pub use stats::IndexStats;
pub use tool_index::{Resolved, ToolIndex};
pub(crate) use tools::CountProgress;
