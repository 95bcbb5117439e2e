//! The layer that cancels calls. It registers each call when the call arrives, so that even a cancellation that follows
//! immediately finds its call.
//!
//! Applies to: inbound.

use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use mgp_types::mcp::CancelledParams;
use mgp_types::method::{Cancelled, Initialize, Request as _, StreamCancel, StreamGap, StreamPace};
use mgp_types::mgp::{
    CancelParams, CancelResult, Extension, GapParams, PaceParams, ResultExtension,
};
use mgp_types::service::{
    Body, BoxFuture, Call, Either, Kind, MgpService, Params, Reply, Router, ScopeId, Stack,
};
use mgp_types::{Id, Payload, RpcError};
use pin_project_lite::pin_project;
use serde::Serialize;
use tower_service::Service;

use super::running::{RunningCall, RunningCalls};
use super::signal::{CancelSignal, Cancellation, Partial};
use crate::callback::CallbackLayer;
use crate::collect::{result_extension, set_result_extension};

/// Layer that drops a running call when its caller cancels it.
///
/// A cancellation identifies its call by scope and id, and has an effect only if exactly one call has that id. After
/// `notifications/cancelled` the call gets no answer. `mgp/stream/cancel` returns the content sent so far, and the call
/// is answered with the same content, or with the result of a handler that listens to its [`CancelSignal`]. The layer
/// also applies `notifications/mgp.stream.pace` and `notifications/mgp.stream.gap` to the chunks of its calls.
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
pub struct CancelLayer {
    calls: RunningCalls,
    callbacks: Option<CallbackLayer>,
}

impl CancelLayer {
    /// Returns a router for `mgp/stream/cancel`. A server or gateway can use it to offer the method as a tool. It
    /// cancels calls that run under this layer.
    #[must_use]
    pub fn router(&self) -> Router {
        let layer = self.clone();
        let answer = Stack::from_fn(move |call: Call| {
            let scope = call.cx().scope.id();
            ready(layer.cancel_with_partial(scope, call.params()))
        });
        Router::new().route(StreamCancel::METHOD, answer)
    }

    /// Adds the functions of a [`CallbackLayer`] to this layer. A separate layer would add one more service to the path
    /// of each call.
    pub fn callbacks(mut self, callbacks: CallbackLayer) -> Self {
        self.callbacks = Some(callbacks);
        self
    }

    /// Returns the number of calls that are running.
    #[must_use]
    pub fn running(&self) -> usize {
        self.calls.len()
    }

    /// Returns the total size, in bytes, of the chunks that running calls have sent and that this layer still keeps.
    /// They are kept to answer a cancellation with the content sent so far, or to send chunks again that the caller
    /// missed.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.calls.kept().held()
    }
}

mgp_types::layer_service! {
    /// The service that [`CancelLayer`] creates.
    pub Cancel for CancelLayer
}

impl CancelLayer {
    /// Cancels the call that `notifications/cancelled` names. The call then gets no answer.
    fn cancel_silently(&self, scope: ScopeId, params: &Params) {
        let Ok(CancelledParams { request_id: Some(id), .. }) = params.get() else { return };
        if let Some(signal) = self.calls.get(scope, &id) {
            signal.cancel(Cancellation::Silently);
        }
    }

    /// Answers `mgp/stream/cancel`: cancels the call, and returns the content that it has sent. The method is
    /// idempotent, and never fails if its params are valid.
    fn cancel_with_partial(&self, scope: ScopeId, params: &Params) -> Result<Reply, RpcError> {
        let CancelParams { request_id, reason, .. } = params.get()?;
        let signal = self.calls.get(scope, &request_id);
        let how = Cancellation::WithPartial { reason };
        let Some(partial) = signal.and_then(|signal| signal.cancel(how)) else {
            let mut none = CancelResult::new(false);
            none.reason = Some("not_active".to_owned());
            return Reply::of(&none);
        };
        Reply::of(&PartialAnswer {
            cancelled: true,
            partial_result: Content { content: &partial.content() },
        })
    }

    /// Applies a notification about the chunks of a running call. For a new pace, sets it immediately and returns
    /// `None`. For a gap, returns the future that sends the missing chunks again.
    fn adjust_stream(&self, call: &Call) -> Option<BoxFuture<'static, Answer>> {
        let scope = call.cx().scope.id();
        let find = |id: &Id| self.calls.get(scope, id)?.stream();
        if call.tells::<StreamPace>() {
            let PaceParams { request_id, max_chunks_per_second, .. } = call.params().get().ok()?;
            find(&request_id)?.set_pace(max_chunks_per_second);
            return None;
        }
        let GapParams { request_id, missing_indices, .. } = call.params().get().ok()?;
        let stream = find(&request_id)?;
        Some(Box::pin(async move {
            stream.resend(&missing_indices).await;
            Ok(Reply::None)
        }))
    }
}

/// The answer to `mgp/stream/cancel`: the content of the chunks that were sent, with adjacent texts joined.
#[derive(Serialize)]
struct PartialAnswer<'a> {
    cancelled: bool,
    partial_result: Content<'a>,
}

#[derive(Serialize)]
struct Content<'a> {
    content: &'a [Payload],
}

type Answer = Result<Reply, RpcError>;

impl<S: MgpService> Service<Call> for Cancel<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future =
        Either<ResponseFuture<S::Future>, Either<Ready<Answer>, BoxFuture<'static, Answer>>>;

    mgp_types::always_ready!();

    fn call(&mut self, mut call: Call) -> Self::Future {
        let scope = call.cx().scope.id();
        if call.tells::<Cancelled>() {
            self.layer.cancel_silently(scope, call.params());
            return answered(Ok(Reply::None));
        }
        if (call.tells::<StreamPace>() || call.tells::<StreamGap>())
            && call.cx().caller.has(Extension::Streaming)
        {
            return match self.layer.adjust_stream(&call) {
                Some(future) => Either::Right { future: Either::Right { future } },
                None => answered(Ok(Reply::None)),
            };
        }
        if call.is::<StreamCancel>()
            && call.kind() == Kind::Request
            && call.cx().caller.has(Extension::Streaming)
        {
            return answered(self.layer.cancel_with_partial(scope, call.params()));
        }
        if let Some(callbacks) = &self.layer.callbacks
            && let Some(answer) = callbacks.intercept(&mut call)
        {
            return answered(answer);
        }
        // Do not register `initialize`, because it must not be cancelled, nor a call without an id, because no
        // cancellation could name it.
        let id = match &call.cx().wire_id {
            Some(id) if call.kind() == Kind::Request && !call.is::<Initialize>() => id.clone(),
            _ => {
                return Either::Left {
                    future: ResponseFuture { inner: self.inner.call(call), running: None },
                };
            }
        };
        let signal = Arc::new(CancelSignal::new(self.layer.calls.kept().clone()));
        let running = self.layer.calls.insert(scope, id, call.cx().key, Arc::clone(&signal));
        call.cx_mut().extensions.insert_shared(Arc::clone(&signal));
        let inner = self.inner.call(call);
        Either::Left { future: ResponseFuture { inner, running: Some((running, signal)) } }
    }
}

pin_project! {
    /// Response future of [`Cancel`]. Dropping it removes the call from the table of running calls.
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
            return Poll::Ready(match signal.end() {
                // A handler that waits for the cancellation can still complete, but the caller no longer waits for its
                // answer.
                Some(Cancellation::Silently) => Ok(Reply::None),
                Some(Cancellation::WithPartial { reason }) => outcome.and_then(|mut reply| {
                    if let Reply::Complete(body) = &mut reply {
                        mark_cancelled(body, reason, signal)?;
                    }
                    Ok(reply)
                }),
                None => outcome,
            });
        }
        signal.poll_dropped(task).map(|(cancellation, partial)| match cancellation {
            Cancellation::Silently => Ok(Reply::None),
            Cancellation::WithPartial { reason } => partial_reply(partial, reason, signal),
        })
    }
}

fn answered<F>(answer: Answer) -> Either<F, Either<Ready<Answer>, BoxFuture<'static, Answer>>> {
    Either::Right { future: Either::Left { future: ready(answer) } }
}

/// Returns the reply to a call that was cancelled with `mgp/stream/cancel`: the partial result that the call had sent
/// (MGP §12.7).
fn partial_reply(
    partial: Partial,
    reason: Option<String>,
    signal: &CancelSignal,
) -> Result<Reply, RpcError> {
    let chunks_sent = partial.chunks_sent;
    let mut body = Body::new(Payload::of(&Content { content: &partial.content() })?);
    let mut mgp = ResultExtension::new();
    mgp.streamed = Some(chunks_sent > 0);
    mgp.chunks_sent = Some(chunks_sent);
    body.insert("_mgp", Payload::of(&mgp)?);
    mark_cancelled(&mut body, reason, signal)?;
    Ok(Reply::Complete(body))
}

/// Marks a result as that of a cancelled call: sets the reason and the running time of the call in `_mgp`.
fn mark_cancelled(
    body: &mut Body,
    reason: Option<String>,
    signal: &CancelSignal,
) -> Result<(), RpcError> {
    let mut mgp = result_extension(body);
    mgp.cancelled = Some(true);
    mgp.cancel_reason = reason;
    mgp.duration_ms = Some(signal.elapsed_ms());
    set_result_extension(body, &mgp)
}

#[cfg(test)]
mod tests;
