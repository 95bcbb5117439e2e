//! The inbox of approvals: where questions wait that nobody at hand may answer (MGP §3.4, §4.4; DESIGN §5).
//!
//! Applies to: both.

mod book;
mod handle;
mod request;
#[cfg(test)]
mod tests;

pub use handle::{Inbox, InboxConfig};
pub use request::{ApprovalRequest, RequestState};
