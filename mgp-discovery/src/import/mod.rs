//! Reads the configurations of other hosts, and adds their servers to `mgp.toml` (MGP §15.2).
//!
//! [`read`] and [`Plan::new`] write no file, so a dry run shows the exact result; [`Plan::apply`] writes it.

mod bundle;
mod denied;
mod entry;
mod host;
mod json;
mod package;
mod plan;
#[cfg(test)]
mod tests;
mod tool_limit;
mod variables;
mod write;

pub use bundle::Bundle;
pub use entry::Entry;
pub use host::{
    Host, Import, ImportError, ImportedServer, read, read_of_user, read_own, switched_off,
};
pub use json::parse_json;
pub(crate) use package::is_withdrawn;
pub use package::{Answer, Answers, Need, PublishedBundle, PublishedServer};
pub use plan::{ImportLine, ImportOutcome, Plan};
pub use tool_limit::ToolLimit;
