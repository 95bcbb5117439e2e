//! Access control: which agent may use which tool (MGP §5).
//!
//! - `book.rs` decides, over the snapshot of `rules.rs`; `entry.rs` is one entry, `pass.rs` reads credentials.
//! - `admin.rs` queries, grants and revokes; `router.rs` and `kernel.rs` are the methods and tools for that.
//!
//! [`AccessLayer`](crate::AccessLayer) applies it to calls and lists.

mod admin;
mod admin_check;
mod book;
mod decision;
mod entry;
mod groups;
mod kernel;
mod names;
mod naming;
mod pass;
mod refused;
mod router;
mod rules;

pub(crate) use admin_check::AdminCheck;
pub use book::Access;
pub(crate) use book::{AccessView, hidden};
pub use decision::AccessDecision;
pub use entry::Entry;
pub(crate) use entry::{MAX_NAME, name_of};
pub use groups::Groups;
pub use kernel::{KernelTools, KernelToolsLayer};
pub use pass::CredentialsExpired;
pub(crate) use pass::{Credentials, Need};
pub(crate) use refused::About;
pub use refused::{AccessDenied, NotOperator};
pub(crate) use router::named_server;
pub(crate) use rules::{Moment, Rules};
