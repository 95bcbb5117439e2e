//! Sessions of the legacy revisions (those with `initialize`): each call has a stream, and so has the session; all can
//! be resumed.

mod batch;
mod calls;
mod link;
mod session;
mod session_table;

pub(super) use session::Session;
pub(super) use session_table::Sessions;
