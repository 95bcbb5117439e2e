//! The approval inbox, where questions wait for an operator (MGP §3.4, §4.4).

mod beside;
mod handle;
mod request;
#[cfg(test)]
mod tests;

pub(crate) use beside::AskedAndKept;
pub use handle::{Inbox, InboxConfig};
pub(crate) use request::Requests;
pub use request::{ApprovalRequest, RequestState};
