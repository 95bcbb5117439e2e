//! Definitions of tools: pinned when they are first seen, refused when they change (MGP §4).
//!
//! - [`Definitions`] is what is known of all tools: their definitions, what follows from them, and how they stand.
//! - [`DefinitionLayer`] keeps it up to date with what servers list, and lets nothing through that does not stand well.
//! - [`Inspection`] and [`NameFlaw`] say of a definition and of a name what is wrong with them alone.
//!
//! Applies to: both.

mod ask;
mod decide;
mod definitions;
mod diff;
mod inspection;
mod layer;
mod listing;
mod memo;
mod name;
mod number;
mod pin;
mod refused;
mod reply;
mod review;
mod seen;
mod shown;
mod standing;
mod table;
#[cfg(test)]
mod tests;

pub use decide::Waiting;
pub use definitions::Definitions;
pub(crate) use definitions::Whose;
pub use diff::Difference;
pub use inspection::Inspection;
pub use layer::{Definition, DefinitionLayer};
pub use name::NameFlaw;
pub use refused::{DecisionRefused, DefinitionRefused};
pub(crate) use review::shows;
pub use review::{Finding, Severity};
pub use standing::{Held, Standing};
