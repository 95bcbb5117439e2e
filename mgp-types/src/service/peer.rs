//! The peer at the other end of a connection, as a service to which calls can be sent.

use std::sync::Arc;
use std::task::{Context as Task, Poll};

use tower_service::Service;

use super::{BoxFuture, Call, CallKey, CallRecord, Context, Reply, Scope};
use crate::wire::{Id, RpcError};

/// A connection as layers use it. The trait is object safe and free of I/O types, so that tests can implement it
/// easily.
// `send` is not `async`, because the trait must be object safe.
pub trait Link: Send + Sync + 'static {
    /// Sends a call. The future of a request completes with the answer, the future of a notification when the
    /// notification has been sent or queued.
    ///
    /// Dropping the future of a request cancels the request at the peer.
    fn send(&self, call: Call) -> BoxFuture<'static, Result<Reply, RpcError>>;

    /// Returns the unanswered request of this side with this wire id or progress token; a message from the peer refers
    /// to that request.
    fn in_flight(&self, _id: &Id) -> Option<InFlight> {
        None
    }

    /// Returns all requests that this side sent and that the peer has not answered, oldest first.
    fn all_in_flight(&self) -> Vec<InFlight> {
        Vec::new()
    }

    /// Returns whether all messages on this link belong to a single request of this side.
    fn is_of_one_request(&self) -> bool {
        false
    }

    /// Returns whether the connection is closed.
    fn is_closed(&self) -> bool {
        false
    }

    /// Returns whether messages wait for the peer on the stream of one of its calls, or on the stream of its session if
    /// that call is over, and the peer does not read this stream.
    fn has_unread(&self, _call: CallKey) -> bool {
        false
    }

    /// Closes the connection after sending the queued messages; running calls end with an error. The reason is logged.
    fn close(&self, _reason: &str) {}

    /// Ends the stream on which this side answers a call of the peer, if the peer can resume the stream later. Returns
    /// whether the stream was ended.
    fn end_stream(&self, _call: CallKey) -> bool {
        false
    }
}

/// A request that this side sent and that the peer has not answered yet.
#[derive(Clone, Debug)]
pub struct InFlight {
    /// The wire id of the request, with which it can be cancelled.
    pub id: Id,
    /// The context of the request, e.g. its principal, its output for partial results, and how to ask its caller.
    pub cx: Context,
    /// The queue for the call's partial results, which arrive in order before the answer.
    pub inbox: Inbox,
}

/// A bounded queue for the partial results of a call, from the loop that reads the connection to the consumer of the
/// results.
#[derive(Clone)]
pub struct Inbox(Arc<dyn ItemReceiver>);

/// The receiving side of an [`Inbox`]. The read loop of the connection calls it, so it must never wait.
pub trait ItemReceiver: Send + Sync {
    /// Adds an item and returns the room that is left in the queue.
    fn push(&self, item: super::OutletItem) -> QueueRoom;
}

/// The amount of room that is left in an [`Inbox`] after an item was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueRoom {
    /// There is enough room for more items.
    Free,
    /// The queue is filled above its high-water mark; a peer that supports pacing should be asked to send more slowly.
    High,
    /// The queue was full, so the item was dropped; the final answer reports the number of dropped chunks.
    Full,
}

impl Inbox {
    /// Creates an inbox that passes its items to a receiver.
    #[must_use]
    pub fn new(receiver: Arc<dyn ItemReceiver>) -> Self {
        Self(receiver)
    }

    /// Adds an item to the queue without waiting.
    #[must_use]
    pub fn push(&self, item: super::OutletItem) -> QueueRoom {
        self.0.push(item)
    }
}

crate::opaque_debug!(Inbox);

/// The other end of a connection: the innermost service of every outbound stack.
#[derive(Clone)]
pub struct Peer(Arc<dyn Link>);

impl Peer {
    /// Creates a peer from a link.
    #[must_use]
    pub fn new(link: Arc<dyn Link>) -> Self {
        Self(link)
    }

    /// Returns a peer without connection, which refuses every call.
    #[must_use]
    pub fn none() -> Self {
        struct NoLink;
        impl Link for NoLink {
            fn send(&self, _: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
                Box::pin(std::future::ready(Err(connection_closed("there is no connection"))))
            }

            fn is_closed(&self) -> bool {
                true
            }
        }
        Self(Arc::new(NoLink))
    }

    /// Sends a call. If it is a tool call, marks it as executed in its audit records.
    #[must_use]
    pub fn send(&self, call: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
        if call.tool().is_some() {
            CallRecord::mark_executed(call.cx());
        }
        self.0.send(call)
    }

    /// Returns the unanswered request of this side with this wire id or progress token.
    #[must_use]
    pub fn in_flight(&self, id: &Id) -> Option<InFlight> {
        self.0.in_flight(id)
    }

    /// Returns all unanswered requests that this side sent, oldest first.
    #[must_use]
    pub fn all_in_flight(&self) -> Vec<InFlight> {
        self.0.all_in_flight()
    }

    /// Returns whether all messages of this peer belong to a single request of this side. In that case,
    /// [`all_in_flight`](Self::all_in_flight) returns only this request.
    #[must_use]
    pub fn is_of_one_request(&self) -> bool {
        self.0.is_of_one_request()
    }

    /// Returns whether the connection is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Returns whether messages wait for the peer on the stream of one of its calls, or on the stream of its session if
    /// that call is over, and the peer does not read this stream (MCP until 2025-11-25 over HTTP).
    #[must_use]
    pub fn has_unread(&self, call: CallKey) -> bool {
        self.0.has_unread(call)
    }

    /// Closes the connection; running calls end with an error. The reason is logged.
    pub fn close(&self, reason: &str) {
        self.0.close(reason);
    }

    /// Ends the stream on which this side answers a call of the peer, if the peer can resume the stream (MCP 2025-11-25
    /// over HTTP).
    ///
    /// Returns whether the stream ended.
    #[expect(clippy::must_use_candidate, reason = "a call goes on either way")]
    pub fn end_stream(&self, call: CallKey) -> bool {
        self.0.end_stream(call)
    }

    /// Creates the context of an outgoing call to this peer, with the principal `local`.
    #[must_use]
    pub fn context(&self, scope: &Scope) -> Context {
        Context::new(self.clone(), scope.clone(), super::Principal::local())
    }
}

/// Returns the error for a call that was not sent, because its connection is closed; `why` is the reason.
#[must_use]
pub fn connection_closed(why: &str) -> RpcError {
    RpcError::new(crate::wire::ErrorCode::SERVER_NOT_READY, format!("connection closed: {why}"))
}

/// Returns the error for a call that was sent before its connection ended, and that might therefore have run.
///
/// The code is that of [`connection_closed`], but the recovery hints forbid a retry and `details.started` is `true`: a
/// caller that knows nothing about the tool must not run it twice. A caller that knows that running the tool twice does
/// no harm checks [`is_connection_lost`].
#[must_use]
pub fn connection_lost(why: &str) -> RpcError {
    let error = connection_closed(why).because(Lost);
    let Some(hints) = error.as_recovery().cloned() else { return error };
    error.recovery(hints.no_retry()).after_start()
}

/// Returns whether this process created the error with [`connection_lost`]; an error from a peer never matches.
#[must_use]
pub fn is_connection_lost(error: &RpcError) -> bool {
    std::error::Error::source(error).is_some_and(<dyn std::error::Error>::is::<Lost>)
}

#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the connection ended before the call was answered")]
struct Lost;

crate::opaque_debug!(Peer);

impl Service<Call> for Peer {
    type Response = Reply;
    type Error = RpcError;
    type Future = BoxFuture<'static, Result<Reply, RpcError>>;

    fn poll_ready(&mut self, _: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> Self::Future {
        self.send(call)
    }
}
