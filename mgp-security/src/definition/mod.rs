//! Definitions of tools: pinned when they are first seen, refused when they change (MGP §4).
//!
//! Applies to: both.

mod definitions;
mod inspection;
mod name;
mod number;
mod review;
mod shown;
mod standing;
mod table;

pub use definitions::Definitions;
pub use inspection::Inspection;
pub use name::NameFlaw;
pub use review::{Finding, Severity};
pub use standing::Standing;
