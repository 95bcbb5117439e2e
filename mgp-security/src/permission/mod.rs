//! Permissions: what a server may do, and who said so (MGP §3).
//!
//! Three parts: `rule.rs` says what stands at one moment, from the policy of a server and what was decided before;
//! `asking.rs`, `admin.rs` and `writing.rs` decide anew; `layer.rs` lets calls through or not.
//! `scope/` checks the limits of approvals, and `grants.rs` is the other side: what a server was told.

mod admin;
mod asking;
mod book;
mod endpoints;
mod entry;
mod grantor;
mod grants;
mod naming;
mod permissions;
mod refused;
mod rule;
mod scope;
mod writing;

#[cfg(test)]
mod tests;

pub use admin::PermissionChange;
pub use entry::{Approval, ApprovalDecision, ApprovalSource};
pub use grants::{GrantStanding, Grants};
pub use permissions::Permissions;
pub(crate) use permissions::{Notes, PermissionNeed, PermissionView};
pub use refused::PermissionRefused;
pub(crate) use refused::RefusalKind;
pub use rule::{Missing, MissingStatus};
