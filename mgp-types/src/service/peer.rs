//! The other end of a connection, as a service (DESIGN §3).

use std::fmt;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use tower_service::Service;

use super::{BoxFuture, Call, CallKey, Context, Reply, Scope, Start};
use crate::wire::{Id, RpcError};

/// What a connection offers to the layers: object safe, free of I/O types, easy to mock.
pub trait Link: Send + Sync + 'static {
    /// Sends a call; a request resolves with its answer, a notification once it is on its way.
    ///
    /// Dropping the future of a request cancels it at the other end.
    fn send(&self, call: Call) -> BoxFuture<'static, Result<Reply, RpcError>>;

    /// The request of ours that the peer's message names, by the id or token it has on the wire.
    fn in_flight(&self, _id: &Id) -> Option<InFlight> {
        None
    }

    /// All requests of ours that the peer has not answered, oldest first.
    fn all_in_flight(&self) -> Vec<InFlight> {
        Vec::new()
    }

    /// Whether the connection is gone.
    fn is_closed(&self) -> bool {
        false
    }

    /// Closes the connection after what is queued; running calls end with the reason.
    fn close(&self, _reason: &str) {}

    /// Ends the stream a call is answered on, where its caller comes back for the rest; `true` when it did.
    fn hang_up(&self, _call: CallKey) -> bool {
        false
    }
}

/// A request of ours that the peer has not answered.
#[derive(Clone, Debug)]
pub struct InFlight {
    /// Its id on the wire, by which it can be cancelled.
    pub id: Id,
    /// Its surroundings: principal, outlet, the way to ask its caller.
    pub cx: Context,
    /// Takes partial results in the order they were read, ahead of the answer.
    pub inbox: Inbox,
}

/// The bounded queue between the read loop and the consumer of a call's partial results.
#[derive(Clone)]
pub struct Inbox(Arc<dyn Mailslot>);

/// Takes items on the read loop; never waits.
pub trait Mailslot: Send + Sync {
    /// Puts an item and says how much room is left.
    fn push(&self, item: super::Item) -> Room;
}

/// How full an [`Inbox`] is after a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// The consumer keeps up.
    Free,
    /// The queue just passed its high-water mark: ask the peer to slow down, if it can be asked.
    High,
    /// The item was dropped and counted; the final answer carries what is missing.
    Full,
}

impl Inbox {
    /// An inbox into a slot.
    #[must_use]
    pub fn new(slot: Arc<dyn Mailslot>) -> Self {
        Self(slot)
    }

    /// Puts an item without waiting.
    #[must_use]
    pub fn push(&self, item: super::Item) -> Room {
        self.0.push(item)
    }
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inbox")
    }
}

/// The other end of a connection: the innermost service of every outbound stack.
#[derive(Clone)]
pub struct Peer(Arc<dyn Link>);

impl Peer {
    /// A peer behind a link.
    #[must_use]
    pub fn new(link: Arc<dyn Link>) -> Self {
        Self(link)
    }

    /// A peer that answers nothing, for calls that come from no connection.
    #[must_use]
    pub fn none() -> Self {
        struct NoLink;
        impl Link for NoLink {
            fn send(&self, _: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
                Box::pin(std::future::ready(Err(closed("there is no connection"))))
            }

            fn is_closed(&self) -> bool {
                true
            }
        }
        Self(Arc::new(NoLink))
    }

    /// Sends a call.
    #[must_use]
    pub fn send(&self, call: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
        if call.tool().is_some() {
            Start::mark_ran(call.cx());
        }
        self.0.send(call)
    }

    /// The request of ours with this id or token on the wire.
    #[must_use]
    pub fn in_flight(&self, id: &Id) -> Option<InFlight> {
        self.0.in_flight(id)
    }

    /// All unanswered requests of ours, oldest first.
    #[must_use]
    pub fn all_in_flight(&self) -> Vec<InFlight> {
        self.0.all_in_flight()
    }

    /// Whether the connection is gone.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Closes the connection.
    pub fn close(&self, reason: &str) {
        self.0.close(reason);
    }

    /// Ends the stream a call of the peer's is answered on, where the peer comes back for the rest (2025-11-25 over HTTP).
    ///
    /// `true` when it did; elsewhere nothing happens.
    #[expect(clippy::must_use_candidate, reason = "a call goes on either way")]
    pub fn hang_up(&self, call: CallKey) -> bool {
        self.0.hang_up(call)
    }

    /// The surroundings of a call of our own to this peer.
    #[must_use]
    pub fn context(&self, scope: &Scope) -> Context {
        Context::new(self.clone(), scope.clone(), super::Principal::local())
    }
}

/// The error of a call whose connection is gone.
#[must_use]
pub fn closed(why: &str) -> RpcError {
    RpcError::new(crate::wire::ErrorCode::SERVER_NOT_READY, format!("connection closed: {why}"))
}

/// The error of a call that was on its way when its connection ended: it may have run.
///
/// It has the code of [`closed`], but does not invite another attempt, and says `details.started`: who follows the hints
/// without knowing the tool must not run it twice. Who knows that it may run twice asks [`is_lost`].
#[must_use]
pub fn lost(why: &str) -> RpcError {
    let error = closed(why).because(Lost);
    let Some(hints) = error.as_recovery().cloned() else { return error };
    let mut details = crate::Object::new();
    details.insert("started", crate::Payload::from_trusted("true"));
    error.recovery(hints.no_retry().details(details))
}

/// Whether an error was made by [`lost`] on this side of the wire: no peer can say so.
#[must_use]
pub fn is_lost(error: &RpcError) -> bool {
    std::error::Error::source(error).is_some_and(<dyn std::error::Error>::is::<Lost>)
}

/// Why such a call failed.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the connection ended while the call was on its way")]
struct Lost;

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_closed() { "Peer(closed)" } else { "Peer" })
    }
}

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
