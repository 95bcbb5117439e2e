//! Which files count, and whether that of a project does (MGP §15.2).
//!
//! Applies to: both.

mod load;
mod origin;
mod read;
mod review;
#[cfg(test)]
mod tests;
mod trust;

pub use load::{Loaded, Sources, Unapproved};
pub use origin::Origin;
pub(crate) use read::text_of;
pub use review::{Review, Reviewed, settings};
pub use trust::{Approval, Trust};
