//! Access control: which agent may use which tool (MGP §5).
//!
//! - `book.rs` makes the decisions, with the snapshot in `rules.rs`; `entry.rs` defines one entry; `pass.rs` checks
//!   the permissions of credentials.
//! - `admin.rs` queries, grants and revokes entries; `router.rs` and `kernel_tools.rs` offer these operations as methods
//!   and tools.
//!
//! [`AccessLayer`](crate::AccessLayer) applies the decisions to calls and lists.

mod admin;
mod admin_check;
mod book;
mod decision;
mod delegation;
mod entry;
mod groups;
mod kernel_tools;
mod named_tools;
mod names;
mod pass;
mod refused;
mod router;
mod rules;

pub(crate) use admin_check::AdminCheck;
pub use book::Access;
pub(crate) use book::{AccessView, hidden};
pub use decision::AccessDecision;
pub use delegation::Delegation;
pub use entry::Entry;
#[cfg(feature = "auth")]
pub(crate) use entry::is_shared_name;
pub(crate) use entry::{MAX_NAME, name_of};
pub use groups::Groups;
pub use kernel_tools::{KernelToolsLayer, KernelToolsService};
pub use pass::CredentialsExpired;
pub(crate) use pass::{Credentials, Need};
pub(crate) use refused::About;
pub use refused::{AccessDenied, NotOperator};
pub(crate) use router::named_server;
pub(crate) use rules::{Moment, Rules};
