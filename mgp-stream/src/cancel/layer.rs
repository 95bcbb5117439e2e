//! The layer that cancels calls. It registers each call when it is dispatched, so that a cancellation cannot miss
//! it.
//!
//! Applies to: inbound.

use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use mgp_types::mcp::CancelledParams;
use mgp_types::method::{Cancelled, Initialize, Request as _, StreamCancel};
use mgp_types::mgp::{CancelParams, CancelResult, Extension, ResultExtension};
use mgp_types::service::{Call, Either, Kind, MgpService, Params, Reply, Router, ScopeId, Stack};
use mgp_types::{Payload, RpcError};
use pin_project_lite::pin_project;
use serde::Serialize;
use tower_service::Service;

use super::running::{RunningCall, RunningCalls};
use super::signal::{CancelSignal, Cancellation, Partial};

/// Layer that drops a running call when its caller cancels it.
///
/// A cancellation finds its call by scope and id, and has an effect only if exactly one call has that id. After
/// `notifications/cancelled` the call gets no answer. `mgp/stream/cancel` returns the content sent so far, and the
/// call is answered with the same content.
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
pub struct CancelLayer(RunningCalls);

impl CancelLayer {
    /// Returns a router for `mgp/stream/cancel` of the calls that run under this layer, for callers that call it as a
    /// tool.
    #[must_use]
    pub fn router(&self) -> Router {
        let layer = self.clone();
        let answer = Stack::from_fn(move |call: Call| {
            let scope = call.cx().scope.id();
            ready(layer.cancel_with_partial(scope, call.params()))
        });
        Router::new().route(StreamCancel::METHOD, answer)
    }

    /// Returns the number of calls that run now.
    #[must_use]
    pub fn running(&self) -> usize {
        self.0.len()
    }
}

mgp_types::layer_service! {
    /// Service of [`CancelLayer`].
    pub Cancel for CancelLayer
}

impl CancelLayer {
    /// Handles `notifications/cancelled`.
    fn cancel_silently(&self, scope: ScopeId, params: &Params) {
        let Ok(CancelledParams { request_id: Some(id), .. }) = params.get() else { return };
        if let Some(signal) = self.0.get(scope, &id) {
            signal.cancel(Cancellation::Silently);
        }
    }

    /// Handles `mgp/stream/cancel`: idempotent, and never an error if the params are valid.
    fn cancel_with_partial(&self, scope: ScopeId, params: &Params) -> Result<Reply, RpcError> {
        let CancelParams { request_id, reason, .. } = params.get()?;
        let Some(signal) = self.0.get(scope, &request_id) else {
            let mut none = CancelResult::new(false);
            none.reason = Some("not_active".to_owned());
            return Reply::of(&none);
        };
        let partial = signal.cancel(Cancellation::WithPartial { reason });
        Reply::of(&PartialAnswer {
            cancelled: true,
            partial_result: Content { content: &partial.content },
        })
    }
}

/// Sends the chunks back as they were sent, without a parse.
#[derive(Serialize)]
struct PartialAnswer<'a> {
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

    mgp_types::always_ready!();

    fn call(&mut self, mut call: Call) -> Self::Future {
        let scope = call.cx().scope.id();
        if call.tells::<Cancelled>() {
            self.layer.cancel_silently(scope, call.params());
            return Either::Right { future: ready(Ok(Reply::None)) };
        }
        if call.is::<StreamCancel>()
            && call.kind() == Kind::Request
            && call.cx().caller.has(Extension::Streaming)
        {
            return Either::Right {
                future: ready(self.layer.cancel_with_partial(scope, call.params())),
            };
        }
        // `initialize` must not be cancelled, and a call without an id cannot be named by a cancellation.
        let id = match &call.cx().wire_id {
            Some(id) if call.kind() == Kind::Request && !call.is::<Initialize>() => id.clone(),
            _ => {
                return Either::Left {
                    future: ResponseFuture { inner: self.inner.call(call), running: None },
                };
            }
        };
        let signal = Arc::new(CancelSignal::default());
        let running = self.layer.0.insert(scope, id, call.cx().key, Arc::clone(&signal));
        call.cx_mut().extensions.insert_shared(Arc::clone(&signal));
        let inner = self.inner.call(call);
        Either::Left { future: ResponseFuture { inner, running: Some((running, signal)) } }
    }
}

pin_project! {
    /// Response future of [`Cancel`]; dropping it removes the call from the table.
    #[derive(Debug)]
    pub struct ResponseFuture<F> {
        #[pin]
        inner: F,
        running: Option<(RunningCall, Arc<CancelSignal>)>,
    }
}

impl<F: Future<Output = Result<Reply, RpcError>>> Future for ResponseFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<F::Output> {
        let this = self.project();
        let Some((_, signal)) = this.running else { return this.inner.poll(task) };
        if let Poll::Ready(outcome) = this.inner.poll(task) {
            return Poll::Ready(match signal.cancellation() {
                // A handler that listens for cancellation may still complete; the caller no longer waits for it.
                Some(Cancellation::Silently) => Ok(Reply::None),
                _ => outcome,
            });
        }
        signal.poll_dropped(task).map(|(cancellation, partial)| match cancellation {
            Cancellation::Silently => Ok(Reply::None),
            Cancellation::WithPartial { reason } => partial_reply(&partial, reason),
        })
    }
}

/// Returns the reply of a call that was cancelled with its partial result (MGP §12.7).
fn partial_reply(partial: &Partial, reason: Option<String>) -> Result<Reply, RpcError> {
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
