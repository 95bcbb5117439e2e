//! Dialects: the shapes of other tool protocols, and their translation to MCP and MGP.

pub mod codomyrmex;
pub mod ggen;
#[cfg(feature = "service")]
mod ggen_errors;

#[cfg(feature = "service")]
pub use ggen_errors::{GgenErrors, GgenErrorsLayer};
