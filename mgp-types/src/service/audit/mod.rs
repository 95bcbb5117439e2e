//! The audit of calls: an audit sink, which records them, issues a ticket before a call may run (MGP §6).
//!
//! [`AuditSink::begin`] reserves room for the final record, so that [`Ticket::finish`] never waits and never fails.
//! For a moderate, higher or unknown risk, the sink first writes a record that announces the call (an intent record).
//! So the log shows even after a crash that the call was about to run. Intent records are internal to the sink: they
//! are not among the eleven types of §6.4 and are never forwarded.

mod call_record;
mod digested;
mod ended_call;
mod memory;
mod suspended;
mod ticket;

pub use call_record::CallRecord;
pub use digested::{ArgumentsDigest, DigestForm};
pub use ended_call::{AuditOutcome, EndedCall};
pub use memory::MemoryAudit;
pub use suspended::SuspendedCalls;
pub use ticket::{Ticket, TicketSink};

use std::error::Error as StdError;
use std::future::{IntoFuture, Ready, ready};
use std::sync::Arc;

use super::{BoxFuture, Either};
use crate::mgp::AuditEvent;
use crate::store::Store;

/// An audit sink, i.e. a recorder of calls and other audit events.
///
/// ```
/// use mgp_types::service::{AuditSink, Call, Context, MemoryAudit, Method, AuditOutcome, Params, Peer, Principal};
/// use mgp_types::service::{Scope, ScopeKind, CallRecord};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let cx = Context::new(Peer::none(), Scope::new(ScopeKind::Connection), Principal::local());
/// let params = Params::split("tools/call", r#"{"name":"water"}"#.into()).unwrap();
/// let start = CallRecord::from_call(&Call::request(Method::of("tools/call"), params, cx)).unwrap();
///
/// let sink = MemoryAudit::new();
/// let ticket = sink.begin(start).await.unwrap();
/// ticket.finish(AuditOutcome::Success);
/// assert_eq!(sink.events()[0].event_type.as_str(), "TOOL_EXECUTED");
/// # });
/// ```
///
/// An example of a custom sink, which `AuditLayer` of mgp-security can use:
///
/// ```
/// use std::sync::Arc;
///
/// use mgp_types::mgp::AuditEvent;
/// use mgp_types::service::{AuditFuture, AuditSink, CallRecord, EndedCall, Ticket, TicketSink};
///
/// /// Prints each event.
/// struct Printer;
///
/// impl AuditSink for Printer {
///     fn begin(&self, start: CallRecord) -> AuditFuture<Ticket> {
///         AuditFuture::Ready(Ok(Ticket::new(start, Arc::new(Self))))
///     }
///
///     fn record(&self, event: AuditEvent) -> AuditFuture<()> {
///         println!("{event:?}");
///         AuditFuture::Ready(Ok(()))
///     }
/// }
///
/// impl TicketSink for Printer {
///     fn close(&self, ended: EndedCall) {
///         println!("{:?}", ended.to_event());
///     }
///
///     fn suspend(&self, start: Arc<CallRecord>) {
///         println!("{:?} waits for answers of its caller", start.tool);
///     }
/// }
/// # let _: &dyn AuditSink = &Printer;
/// ```
pub trait AuditSink: Send + Sync {
    /// Registers a call that is about to run; the call must not run before the ticket is issued.
    ///
    /// If an earlier round of the same logical call ended with questions, this round continues the record of that
    /// round.
    ///
    /// # Errors
    /// Returns [`AuditError`] if the call cannot be recorded; the call must then not run.
    ///
    /// # Cancel safety
    /// A sink that waits must create the [`Ticket`] first and hold it in the future:
    /// dropping the future drops the ticket, which records the call as cancelled.
    fn begin(&self, start: CallRecord) -> AuditFuture<Ticket>;

    /// Records an event other than a call: a grant, a connection, rejected arguments.
    ///
    /// The sink has accepted the event when this method returns, even if the future is never polled; the future
    /// completes when the event is stored.
    ///
    /// # Errors
    /// Returns [`AuditError`] if the event cannot be recorded; the recorded action must then not happen.
    fn record(&self, event: AuditEvent) -> AuditFuture<()>;

    /// Returns the name of the log for which this sink reads the pending events of `store`, or `None` if the sink does
    /// not read them.
    ///
    /// If this method returns a name, code that changes state commits its audit events together with the change,
    /// instead of calling [`record`](Self::record). So either both the change and the event are stored, or neither of
    /// them is.
    fn outbox(&self, store: &dyn Store) -> Option<&str> {
        let _ = store;
        None
    }
}

/// The answer of a sink: available immediately, without a boxed future, or later.
///
/// Can be awaited directly, because it implements `IntoFuture`.
#[must_use = "the recorded action must not happen before the sink has answered"]
pub enum AuditFuture<T> {
    /// An answer that is available immediately.
    Ready(Result<T, AuditError>),
    /// An answer that becomes available when the store has accepted the record, or when the sink has room again.
    Later(BoxFuture<'static, Result<T, AuditError>>),
}

impl<T: Send> IntoFuture for AuditFuture<T> {
    type Output = Result<T, AuditError>;
    type IntoFuture = Either<Ready<Self::Output>, BoxFuture<'static, Self::Output>>;

    fn into_future(self) -> Self::IntoFuture {
        match self {
            Self::Ready(answer) => Either::Left { future: ready(answer) },
            Self::Later(future) => Either::Right { future },
        }
    }
}

crate::opaque_debug!(AuditFuture<T>);

/// The error of an audit event that cannot be recorded.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// The sink has no room for the event, and stopped waiting for room.
    #[error("the audit log is full; make room in it, or try again later")]
    Full,
    /// The store of the audit log failed.
    #[error("the audit log cannot be written; see the log of the program that writes it")]
    Failed(#[source] Arc<dyn StdError + Send + Sync>),
    /// The sink was closed, so that it records nothing more.
    #[error(
        "the audit log is closed; the program that writes it is stopping, or must be restarted"
    )]
    Closed,
}

impl AuditError {
    /// Creates the error of a sink whose store failed.
    #[must_use]
    pub fn failed(reason: impl StdError + Send + Sync + 'static) -> Self {
        Self::Failed(Arc::new(reason))
    }
}
