//! Finds the configuration files, and manages the approvals of projects' files (MGP §15.2).

mod checked_file;
mod config_folders;
mod local_file;
mod merge;
mod origin;
mod review;
#[cfg(test)]
mod tests;
mod trust;

pub(crate) use checked_file::text_of;
pub(crate) use config_folders::{own_user_folders, user_folders};
pub(crate) use local_file::{ProjectProgram, changed_file, local_files};
pub use merge::{LoadedConfig, Sources, UnapprovedProject};
pub use origin::Origin;
pub use review::{ProjectReview, ReviewedServer, settings};
pub use trust::{Trust, TrustApproval};
