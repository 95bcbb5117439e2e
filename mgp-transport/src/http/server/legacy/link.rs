//! The [`Link`] to the client of a session: sends each message on the stream to which it belongs.

use std::sync::Arc;

use mgp_types::method::{
    ManifestChanged, Notification as _, PromptsListChanged, ResourcesListChanged, ResourcesUpdated,
    ToolsListChanged,
};
use mgp_types::service::{
    BoxFuture, Call, CallKey, InFlight, Kind, Link, Reply, connection_closed, write_call,
};
use mgp_types::{Id, RpcError};

use super::super::stream::Stream;
use super::session::Session;
use crate::connection::{PendingRequests, write_cancelled};

impl Session {
    async fn notify(self: Arc<Self>, call: Call) -> Result<Reply, RpcError> {
        let stream = self.route(call.related_key());
        stream.wait_for_room().await.map_err(|_| disconnected())?;
        let method = call.method().as_str();
        let write = |out: &mut Vec<u8>| write_call(out, None, method, call.params(), call.hop());
        let pushed =
            if is_of_change(method) { stream.push_once(write) } else { stream.push(write) };
        pushed.map_err(|_| disconnected())?;
        Ok(Reply::None)
    }

    async fn request(self: Arc<Self>, mut call: Call) -> Result<Reply, RpcError> {
        let stream = self.route(call.related_key());
        stream.wait_for_room().await.map_err(|_| disconnected())?;
        let number = self.pending().assign_number(&mut call).ok_or_else(disconnected)?;
        let waiting = PendingGuard { session: &self, stream: &stream, number };
        let outlet = call.cx().outlet.clone();
        let mut slot = None;
        stream
            .push(|out| {
                let id = Id::Number(number);
                write_call(out, Some(&id), call.method().as_str(), call.params(), call.hop());
                // The call is inserted before the request is sent, so that the answer can be matched to it.
                slot = self.pending().insert(number, call);
            })
            .map_err(|_| {
                // The client did not get the request, so it gets no cancellation either.
                self.pending().remove(number);
                disconnected()
            })?;
        let slot = slot.ok_or_else(disconnected)?;
        let outcome = slot.outcome(&outlet).await;
        drop(waiting);
        outcome
    }
}

/// Returns whether a notification only reports that a list, a resource or the manifest has changed.
fn is_of_change(method: &str) -> bool {
    matches!(
        method,
        ToolsListChanged::METHOD
            | PromptsListChanged::METHOD
            | ResourcesListChanged::METHOD
            | ResourcesUpdated::METHOD
            | ManifestChanged::METHOD
    )
}

fn disconnected() -> RpcError {
    connection_closed("the client is gone")
}

/// A guard for a request that waits for its answer. Dropping the guard removes the request and, if it is still
/// unanswered, sends a cancellation to the client.
struct PendingGuard<'a> {
    session: &'a Session,
    stream: &'a Stream,
    number: i64,
}

impl Drop for PendingGuard<'_> {
    fn drop(&mut self) {
        if self.session.pending().remove(self.number) {
            let cancel = |stream: &Stream| stream.push(|out| write_cancelled(out, self.number));
            // The request belonged to a call. If that call is over, its stream has ended, so the cancellation is sent
            // on the session's GET stream. If the session is over too, no cancellation is needed.
            let _ = cancel(self.stream).or_else(|_| cancel(&self.session.standalone()));
        }
    }
}

impl Link for Session {
    fn send(&self, call: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
        // The future holds an `Arc` of the session, so that the session exists until the message is sent.
        let Some(session) = self.upgrade() else {
            return Box::pin(std::future::ready(Err(disconnected())));
        };
        match call.kind() {
            Kind::Request => Box::pin(session.request(call)),
            Kind::Notification => Box::pin(session.notify(call)),
        }
    }

    fn in_flight(&self, id: &Id) -> Option<InFlight> {
        self.sent_requests().and_then(|pending| pending.get(id))
    }

    fn all_in_flight(&self) -> Vec<InFlight> {
        self.sent_requests().map(PendingRequests::all).unwrap_or_default()
    }

    fn end_stream(&self, call: CallKey) -> bool {
        self.supports_priming() && self.stream(call).is_some_and(|stream| stream.hang_up())
    }

    fn is_closed(&self) -> bool {
        self.is_ended()
    }

    fn has_unread(&self, call: CallKey) -> bool {
        self.route(Some(call)).has_unread()
    }

    fn close(&self, reason: &str) {
        tracing::debug!(reason, "closing the session");
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context as Task, Waker};

    use mgp_types::method::{Cancelled, Notification as _, Ping, Request as _};
    use mgp_types::service::{Context, Method, Params, Principal};

    use super::super::super::config::HttpConfig;
    use super::super::super::event_budget::EventBudget;
    use super::*;

    /// Regression test: the client got no cancellation, and kept working on its answer.
    #[tokio::test]
    async fn a_request_that_outlives_its_call_is_cancelled_on_the_stream_of_the_session() {
        let budget = EventBudget::new(&HttpConfig::default());
        let principal = Principal::local();
        let session = Session::new(principal.clone(), budget.of_caller(&principal)).unwrap();
        let key = CallKey::next();
        let open = session.open(key);
        let cx = Context::new(session.peer(), session.scope().clone(), principal);
        let request = Call::request(Method::of(Ping::METHOD), Params::none(), cx).related(key);
        let mut waiting = session.send(request);
        assert!(waiting.as_mut().poll(&mut Task::from_waker(Waker::noop())).is_pending());
        assert!(open.stream.has_events());
        drop(open);
        drop(waiting);
        let sent = String::from_utf8(session.standalone().take_events().to_vec()).unwrap();
        assert!(sent.contains(Cancelled::METHOD), "{sent}");
    }
}
