//! Sessions of the revisions with `initialize`: a stream for each call, one for the session, and both can be resumed.

mod batch;
mod calls;
mod link;
mod session;
mod table;

pub(super) use session::Session;
pub(super) use table::Sessions;
