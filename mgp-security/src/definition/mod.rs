//! Definitions of tools: pinned when a server first lists them, refused when they change (MGP §4).
//!
//! - [`Definitions`] holds all known tools: their definitions, their assessments and their states.
//! - [`DefinitionLayer`](crate::DefinitionLayer) updates them from the lists that servers send, and refuses calls of
//!   tools that are not approved.
//! - [`Inspection`] and [`NameFlaw`] describe the flaws of a single definition or name.

mod definitions;
mod diff;
mod fetch;
mod inspection;
mod listing;
mod name;
mod number;
mod operator_decision;
mod pin;
mod refused;
mod reply;
mod review;
mod server_listing;
mod shown;
mod skeleton;
mod state;
mod table;
#[cfg(test)]
mod tests;

pub use definitions::Definitions;
pub(crate) use definitions::ServerTools;
pub use diff::Difference;
pub use inspection::Inspection;
pub use name::NameFlaw;
pub use operator_decision::PendingDefinition;
pub(crate) use pin::PinTable;
pub(crate) use refused::why_not_callable;
pub use refused::{DecisionRefused, DefinitionRefused};
pub(crate) use reply::{page, watch};
pub(crate) use review::shows;
pub use review::{Finding, Severity, review_text};
pub(crate) use server_listing::ListExtent;
pub use state::{DefinitionState, HeldDefinition};
pub(crate) use table::{DefinitionRule, KnownTool, Tools};
