//! `${…}` in configurations, and secrets that stand in them (MGP §15.2).
//!
//! Applies to: both.

mod command;
mod expander;
mod secrets;
mod template;
#[cfg(test)]
mod tests;
mod value;

pub use expander::{ExpandedReach, ExpandedServer, Expander, NotExpanded};
pub(crate) use secrets::looks_secret;
pub use secrets::{ClearSecret, clear_secrets};
pub use template::{BadTemplate, Template};
pub(crate) use template::{Piece, closing};
pub use value::Expanded;
