//! The layer: enters calls where they are dispatched, so that a request and its cancellation cannot race.
//!
//! Applies to: inbound.

use std::fmt;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use mgp_types::mcp::CancelledParams;
use mgp_types::method::{Cancelled, Initialize, StreamCancel};
use mgp_types::mgp::{CancelParams, CancelResult, Extension, ResultExtension};
use mgp_types::service::{Call, Either, Kind, MgpService, Params, Reply, ScopeId};
use mgp_types::{Payload, RpcError};
use pin_project_lite::pin_project;
use serde::Serialize;
use tower_layer::Layer;
use tower_service::Service;

use super::flights::{Flight, Flights};
use super::signal::{CancelSignal, Cancellation, Partial};

/// Drops a running call when its caller cancels it.
///
/// A cancellation finds its call by scope and id, and only if exactly one call has that id.
/// `notifications/cancelled` leaves the call unanswered;
/// `mgp/stream/cancel` answers with what was sent so far, and the call itself with the same.
///
/// ```
/// use mgp_stream::CancelLayer;
/// use mgp_types::service::{Reply, Stack, mock};
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let hangs = Stack::from_fn(|_| std::future::pending());
/// let mut client = mock::client(Stack::new(CancelLayer::default().layer(hangs)));
/// let call = client.call("tools/call", r#"{"name":"a"}"#);
/// client.notify("notifications/cancelled", r#"{"requestId":1}"#).await.unwrap();
/// assert!(matches!(call.await, Ok(Reply::None)));
/// # });
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct CancelLayer(Flights);

impl CancelLayer {
    /// Calls that run now.
    #[must_use]
    pub fn running(&self) -> usize {
        self.0.len()
    }
}

impl<S> Layer<S> for CancelLayer {
    type Service = Cancel<S>;

    fn layer(&self, inner: S) -> Cancel<S> {
        Cancel { inner, flights: self.0.clone() }
    }
}

/// Service of [`CancelLayer`].
#[derive(Clone)]
pub struct Cancel<S> {
    inner: S,
    flights: Flights,
}

impl<S> fmt::Debug for Cancel<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cancel({} running)", self.flights.len())
    }
}

impl<S> Cancel<S> {
    /// `notifications/cancelled`.
    fn silently(&self, scope: ScopeId, params: &Params) {
        let Ok(CancelledParams { request_id: Some(id), .. }) = params.get() else { return };
        if let Some(signal) = self.flights.only(scope, &id) {
            signal.cancel(Cancellation::Silently);
        }
    }

    /// `mgp/stream/cancel`: never an error once the params are right, and the same however often it is sent.
    fn with_partial(&self, scope: ScopeId, params: &Params) -> Result<Reply, RpcError> {
        let CancelParams { request_id, reason, .. } = params.get()?;
        let reason = reason;
        let Some(signal) = self.flights.only(scope, &request_id) else {
            let mut none = CancelResult::new(false);
            none.reason = Some("not_active".to_owned());
            return Reply::of(&none);
        };
        let partial = signal.cancel(Cancellation::WithPartial { reason });
        Reply::of(&Answer {
            cancelled: true,
            partial_result: Content { content: &partial.content },
        })
    }
}

/// The chunks go back as they were sent, without a parse.
#[derive(Serialize)]
struct Answer<'a> {
    cancelled: bool,
    partial_result: Content<'a>,
}

#[derive(Serialize)]
struct Content<'a> {
    content: &'a [Payload],
}

impl<S: MgpService> Service<Call> for Cancel<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<ResponseFuture<S::Future>, Ready<Result<Reply, RpcError>>>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, mut call: Call) -> Self::Future {
        let scope = call.cx().scope.id();
        if call.tells::<Cancelled>() {
            self.silently(scope, call.params());
            return Either::Right { future: ready(Ok(Reply::None)) };
        }
        if call.is::<StreamCancel>()
            && call.kind() == Kind::Request
            && call.cx().caller.has(Extension::Streaming)
        {
            return Either::Right { future: ready(self.with_partial(scope, call.params())) };
        }
        // `initialize` must not be cancelled, and what has no id cannot be.
        let id = match &call.cx().wire_id {
            Some(id) if call.kind() == Kind::Request && !call.is::<Initialize>() => id.clone(),
            _ => {
                return Either::Left {
                    future: ResponseFuture { inner: self.inner.call(call), flight: None },
                };
            }
        };
        let signal = Arc::new(CancelSignal::default());
        let flight = self.flights.enter(scope, id, call.cx().key, Arc::clone(&signal));
        call.cx_mut().extensions.insert_shared(Arc::clone(&signal));
        let inner = self.inner.call(call);
        Either::Left { future: ResponseFuture { inner, flight: Some((flight, signal)) } }
    }
}

pin_project! {
    /// Response future of [`Cancel`]; dropping it takes the call out of the table.
    #[derive(Debug)]
    pub struct ResponseFuture<F> {
        #[pin]
        inner: F,
        flight: Option<(Flight, Arc<CancelSignal>)>,
    }
}

impl<F: Future<Output = Result<Reply, RpcError>>> Future for ResponseFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<F::Output> {
        let this = self.project();
        let Some((_, signal)) = this.flight else { return this.inner.poll(task) };
        if let Poll::Ready(outcome) = this.inner.poll(task) {
            return Poll::Ready(match signal.how() {
                // A handler that listened may still have ended; the caller no longer waits for it.
                Some(Cancellation::Silently) => Ok(Reply::None),
                _ => outcome,
            });
        }
        signal.poll_dropped(task).map(|(how, partial)| match how {
            Cancellation::Silently => Ok(Reply::None),
            Cancellation::WithPartial { reason } => cut_short(partial, reason),
        })
    }
}

/// The answer of a call that was cancelled with its partial result (checklist C25).
fn cut_short(partial: Partial, reason: Option<String>) -> Result<Reply, RpcError> {
    let mut mgp = ResultExtension::new();
    mgp.streamed = Some(partial.chunks > 0);
    mgp.chunks_sent = Some(partial.chunks);
    mgp.cancelled = Some(true);
    mgp.cancel_reason = reason;
    let mut reply = Reply::of(&Content { content: &partial.content })?;
    if let Some(body) = reply.as_body_mut() {
        body.insert("_mgp", Payload::of(&mgp)?);
    }
    Ok(reply)
}

#[cfg(test)]
mod tests;
