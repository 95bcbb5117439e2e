//! Sessions of the legacy revisions (those with `initialize`): each call has a stream, and so has the session; all can
//! be resumed.
//!
//! `calls.rs` handles the messages of a session, `batch.rs` several messages in one body, and `link.rs` sends messages
//! to the client. `session.rs` has one session with its streams, and `session_table.rs` all sessions of a server.

mod batch;
mod calls;
mod link;
mod session;
mod session_table;

pub(super) use session::Session;
pub(super) use session_table::Sessions;
