//! Finds the configuration files, and manages the approvals of projects' files (MGP §15.2).

mod load;
mod local_file;
mod origin;
mod read;
mod review;
#[cfg(test)]
mod tests;
mod trust;

pub use load::{LoadedConfig, Sources, UnapprovedProject};
pub(crate) use local_file::changed_file;
pub use origin::Origin;
pub(crate) use read::text_of;
pub use review::{ProjectReview, ReviewedServer, settings};
pub use trust::{Trust, TrustApproval};
