//! A client whose server is started, monitored and restarted (MGP §11.5).
//!
//! The client's gates, i.e. the layers that check and record calls, are built once and kept for all connections:
//!
//! ```text
//! trace ─▶ retry ─▶ wait ─▶ address ─▶ the user's gates ─▶ ready ─▶ current connection ─▶ meta ─▶ … ─▶ peer
//!                                      └──────── one for all connections ──────────┘   └─ one for each ─┘
//! ```
//!
//! A call that is retried reaches the restarted server. A call that is refused because no server runs passes the gates
//! and is recorded like any other call. A call waits for the server *before* the gates, so that the gates' decision is
//! still valid when the call is sent.

mod announced_stop;
mod authorization;
mod drain_time;
mod handle;
mod monitor;
mod persistent_stack;
mod record;
mod start;
mod start_failure;

pub use authorization::AuthorizationFailed;
pub use handle::SupervisedClient;
pub(crate) use persistent_stack::TaskHold;
pub use start::{HttpTransport, ServerTarget};
