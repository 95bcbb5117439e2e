//! Where calls are recorded: a sink gives out a ticket before a call may run (MGP §6; DESIGN §3).
//!
//! [`AuditSink::begin`] reserves the room for the final record, so that [`Ticket::finish`] never waits and never fails.
//! For a risk of moderate and above, or an unknown one, it also writes an intent record first:
//! whatever happens to the process afterwards, it is known that the call was about to run.
//! Intent records are the sink's own: they are none of the eleven types of §6.4 and are never forwarded.

mod digested;
mod end;
mod memory;
mod start;
mod suspended;
mod ticket;

pub use digested::{DigestOf, Digested};
pub use end::{Ended, Outcome};
pub use memory::MemoryAudit;
pub use start::Start;
pub use suspended::Suspended;
pub use ticket::{Ledger, Ticket};

use std::error::Error as StdError;
use std::future::{IntoFuture, Ready, ready};
use std::sync::Arc;

use super::{BoxFuture, Either};
use crate::mgp::AuditEvent;
use crate::store::Store;

/// Records calls and other events.
///
/// ```
/// use mgp_types::service::{AuditSink, Call, Context, MemoryAudit, Method, Outcome, Params, Peer, Principal};
/// use mgp_types::service::{Scope, ScopeKind, Start};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let cx = Context::new(Peer::none(), Scope::new(ScopeKind::Connection), Principal::local());
/// let params = Params::split("tools/call", r#"{"name":"water"}"#.into()).unwrap();
/// let start = Start::of(&Call::request(Method::of("tools/call"), params, cx)).unwrap();
///
/// let sink = MemoryAudit::new();
/// let ticket = sink.begin(start).await.unwrap();
/// ticket.finish(Outcome::Success);
/// assert_eq!(sink.events()[0].event_type.as_str(), "TOOL_EXECUTED");
/// # });
/// ```
pub trait AuditSink: Send + Sync {
    /// Takes note of a call that is about to run; it may not run before the ticket is there.
    ///
    /// Where an earlier round of the same logical call was suspended, this continues it.
    ///
    /// # Errors
    /// [`Unaudited`] when the call cannot be recorded; then it must not run.
    ///
    /// # Cancel safety
    /// A sink that waits makes the [`Ticket`] first and keeps it in the future:
    /// dropping the future drops the ticket, which records the call as cancelled.
    fn begin(&self, start: Start) -> Audited<Ticket>;

    /// Records an event that is no call: a grant, a connection, a rejected argument.
    ///
    /// The event is handed over by this function itself; what it returns only tells when it is kept.
    ///
    /// # Errors
    /// [`Unaudited`] when the event cannot be recorded; then what it tells of must not happen.
    fn record(&self, event: AuditEvent) -> Audited<()>;

    /// The name under which this sink takes events out of this very [`Store`]; none for one it does not look into.
    ///
    /// Where there is one, whoever changes state hands the events over in the same commit and records nothing itself,
    /// so that neither is kept without the other.
    fn outbox(&self, store: &dyn Store) -> Option<&str> {
        let _ = store;
        None
    }
}

/// What a sink answers: at once, which costs no future, or later.
///
/// It can be awaited as it is.
#[must_use = "what is to be recorded may not happen before the sink has answered"]
pub enum Audited<T> {
    /// The answer.
    Ready(Result<T, Unaudited>),
    /// The answer comes when the store took the record, or when there is room again.
    Later(BoxFuture<'static, Result<T, Unaudited>>),
}

impl<T: Send> IntoFuture for Audited<T> {
    type Output = Result<T, Unaudited>;
    type IntoFuture = Either<Ready<Self::Output>, BoxFuture<'static, Self::Output>>;

    fn into_future(self) -> Self::IntoFuture {
        match self {
            Self::Ready(answer) => Either::Left { future: ready(answer) },
            Self::Later(future) => Either::Right { future },
        }
    }
}

impl<T> std::fmt::Debug for Audited<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ready(Ok(_)) => "Ready",
            Self::Ready(Err(_)) => "Ready(unaudited)",
            Self::Later(_) => "Later",
        })
    }
}

/// Why something cannot be recorded.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unaudited {
    /// There is no room, and waiting longer would not be right.
    #[error("the audit log is full; make room in it, or try again later")]
    Full,
    /// The store failed.
    #[error("the audit log cannot be written; the log of the program that writes it says why")]
    Failed(#[source] Arc<dyn StdError + Send + Sync>),
    /// The sink was closed.
    #[error(
        "the audit log is closed; the program that writes it is ending, or must be started anew"
    )]
    Closed,
}

impl Unaudited {
    /// The store failed for a reason.
    #[must_use]
    pub fn failed(reason: impl StdError + Send + Sync + 'static) -> Self {
        Self::Failed(Arc::new(reason))
    }
}
