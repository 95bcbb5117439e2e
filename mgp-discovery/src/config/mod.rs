//! The keys of `mgp.toml` and their meaning (MGP §15.2).

mod describe;
mod finding;
mod keys;
mod kind;
pub mod limits;
mod model;
mod nearest;
mod parse;
mod reader;
#[cfg(test)]
mod tests;

pub use describe::{config_markdown, config_schema};
pub use finding::{Faults, Finding, Severity};
pub use keys::{KEYS, Key};
pub use kind::{Kind, parse_duration};
pub use model::{
    Agent, Audit, Budget, CallTimeouts, Config, Confirm, Fsync, Isolation, Kernel, Reach,
    RecordedArguments, Restart, Server, ServerMgp, ToolCreation,
};
pub use nearest::nearest;
pub use parse::ParsedConfig;
pub(crate) use parse::valid_id;
