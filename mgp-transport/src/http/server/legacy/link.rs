//! The other end of a session: messages go to the stream they belong to.
//!
//! Applies to: inbound.

use std::sync::Arc;

use mgp_types::service::{
    BoxFuture, Call, CallKey, InFlight, Kind, Link, Reply, closed, write_call,
};
use mgp_types::{Id, RpcError};

use super::super::stream::Stream;
use super::session::Session;
use crate::connection::{PendingRequests, write_cancelled};

impl Session {
    async fn tell(self: Arc<Self>, call: Call) -> Result<Reply, RpcError> {
        let stream = self.route(call.related_key());
        stream.room().await.map_err(|_| gone())?;
        stream
            .push(|out| write_call(out, None, call.method().as_str(), call.params(), call.hop()))
            .map_err(|_| gone())?;
        Ok(Reply::None)
    }

    async fn ask(self: Arc<Self>, mut call: Call) -> Result<Reply, RpcError> {
        let stream = self.route(call.related_key());
        stream.room().await.map_err(|_| gone())?;
        let number = self.pending().assign_number(&mut call).ok_or_else(gone)?;
        let waiting = Waiting { session: &self, stream: &stream, number };
        let outlet = call.cx().outlet.clone();
        let mut slot = None;
        stream
            .push(|out| {
                let id = Id::Number(number);
                write_call(out, Some(&id), call.method().as_str(), call.params(), call.hop());
                // Before it leaves, so that its answer finds it.
                slot = self.pending().insert(number, call);
            })
            .map_err(|_| gone())?;
        let slot = slot.ok_or_else(gone)?;
        let outcome = slot.outcome(&outlet).await;
        drop(waiting);
        outcome
    }
}

fn gone() -> RpcError {
    closed("the client is gone")
}

/// Leaves the table when nobody waits for the answer any more, and tells the client if it had not answered.
struct Waiting<'a> {
    session: &'a Session,
    stream: &'a Stream,
    number: i64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.session.pending().remove(self.number) {
            // A client that is gone needs no cancellation.
            let _ = self.stream.push(|out| write_cancelled(out, self.number));
        }
    }
}

/// A session is a link as long as anyone holds it.
impl Link for Session {
    fn send(&self, call: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
        // The table holds the session; whoever sends holds it as long as it takes.
        let Some(session) = self.this() else {
            return Box::pin(std::future::ready(Err(gone())));
        };
        match call.kind() {
            Kind::Request => Box::pin(session.ask(call)),
            Kind::Notification => Box::pin(session.tell(call)),
        }
    }

    fn in_flight(&self, id: &Id) -> Option<InFlight> {
        self.asked().and_then(|pending| pending.get(id))
    }

    fn all_in_flight(&self) -> Vec<InFlight> {
        self.asked().map(PendingRequests::all).unwrap_or_default()
    }

    fn hang_up(&self, call: CallKey) -> bool {
        self.may_prime() && self.stream(call).is_some_and(|stream| stream.hang_up())
    }

    fn is_closed(&self) -> bool {
        self.is_over()
    }

    fn close(&self, reason: &str) {
        tracing::debug!(reason, "closing the session");
        self.end();
    }
}
