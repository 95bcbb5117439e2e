//! Access control: which agent may use which tool (MGP §5).
//!
//! - `book.rs` decides, over the snapshot of `rules.rs`; `entry.rs` is what is kept.
//! - `layer.rs` guards calls and, with `list.rs`, what is listed; `pass.rs` says what credentials permit.
//! - `admin.rs` asks, grants and takes back; `router.rs` and `kernel.rs` are the ways in; `expiry.rs` is the end.
//!
//! Applies to: both.

mod admin;
mod asker;
mod book;
mod decided;
mod entry;
mod expiry;
mod groups;
mod kernel;
mod layer;
mod list;
mod names;
mod pass;
mod refused;
mod router;
mod rules;

pub(crate) use asker::{About, Asker};
pub use book::Access;
pub use decided::Decided;
pub use entry::Entry;
pub use groups::Groups;
pub use kernel::{KernelTools, KernelToolsLayer};
pub use layer::{AccessLayer, Gated};
pub(crate) use pass::Need;
pub use refused::{AccessDenied, NotOperator, PassEnded};
pub(crate) use router::named_server;
