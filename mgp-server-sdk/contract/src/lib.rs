//! Treats definitions of MCP and MGP tools as contracts with their callers: versions, differences, specifications,
//! examples and exports.
//!
//! All functions of this crate are pure: they only compute results from the definitions or texts that they receive.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod checker;
mod contract;
mod diff;
mod example;
mod export;
mod lint;
mod lock;
mod openapi;
mod pattern;
mod read;
mod spec;
mod version;

pub use contract::Contract;
pub use diff::{Bump, Change, ToolDifference, compare, compare_all};
pub use example::{NoExample, examples};
pub use export::{catalog, tool_export};
pub use lint::{Lint, LintLevel, lint};
pub use lock::{LockDrift, LockFile, LockedPackage, LockedServer};
pub use openapi::openapi;
pub use read::{ReadError, read_contracts};
pub use spec::{SpecDocument, read_spec, write_spec};
pub use version::required_version;
