//! Definitions of tools: pinned when they are first seen, refused when they change (MGP §4).
//!
//! Applies to: both.

mod definitions;
mod standing;
mod table;

pub use definitions::Definitions;
pub use standing::Standing;
