//! The files that apply, and the approval of projects' files (MGP §15.2).

mod load;
mod local_file;
mod origin;
mod read;
mod review;
#[cfg(test)]
mod tests;
mod trust;

pub use load::{Loaded, Sources, Unapproved};
pub(crate) use local_file::{LocalFiles, changed_file};
pub use origin::Origin;
pub(crate) use read::text_of;
pub use review::{Review, Reviewed, settings};
pub use trust::{Approval, Trust};
