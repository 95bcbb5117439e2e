//! Permissions: what a server is allowed to do, and which decision allowed it (MGP §3).
//!
//! `rule.rs` decides about one permission at one moment, from the policy of a server and earlier decisions;
//! `asking.rs` and `admin.rs` make new decisions, and `stored_approvals.rs` stores them. `scope/` checks the limits of
//! approvals. `client_decisions.rs` is the server's side: it stores the decisions that a server received.

mod admin;
mod asking;
mod book;
mod client_decisions;
mod declared;
mod endpoints;
mod entry;
mod grantor;
mod named_tools;
mod permissions;
mod refused;
mod rule;
pub(crate) mod scope;
mod stored_approvals;

#[cfg(test)]
mod tests;

pub use admin::PermissionChange;
pub(crate) use book::Book;
pub use client_decisions::{GrantState, Grants};
pub use entry::{Approval, ApprovalDecision, ApprovalSource};
pub use permissions::Permissions;
pub(crate) use permissions::{AskOutcomes, PermissionJudgement, PermissionView};
pub use refused::PermissionRefused;
pub(crate) use refused::RefusalKind;
pub(crate) use rule::PermissionNeed;
pub use rule::{MissingPermission, MissingStatus};
pub use scope::scope_words;
pub(crate) use stored_approvals::ChangeCause;
