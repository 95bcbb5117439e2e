//! The sink of an inbound call: it receives the partial results that the call sends through its outlet, and converts
//! them to notifications to the caller (MGP §12.4, §12.6; MCP progress, logging).
//!
//! Items of a kind that the caller did not negotiate or request are not created; see [`Outlet::wants`].
//!
//! Applies to: inbound.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, ready};

use mgp_types::mcp::{Era, key};
use mgp_types::method::{
    CallbackRequest, EventNotification, LogMessage, Notification, Progress, StreamProgress,
};
use mgp_types::mgp::{Extension, StreamProgressParams};
use mgp_types::service::{
    Body, BoxFuture, Call, Chunk, ConsumerGone, Kind, MetaKey, MgpService, Outlet, OutletItem,
    OutletItemKind, PeerInfo, Progress as Step, Reply, Sink, StreamLimit,
};
use mgp_types::sync::Mutex;
use mgp_types::{Id, Number, Payload, RpcError};
use pin_project_lite::pin_project;
use serde::{Deserialize, Serialize};
use tower_service::Service;

use crate::cancel::CancelSignal;
use crate::chunk::ChunkSender;
use crate::collect::{result_extension, set_result_extension};
use crate::recipient::Recipient;

/// Layer that gives each request an [`Outlet`], which sends partial results to the caller.
///
/// The chunks of a call are numbered from 0. The last chunk has `done:true`; if the call does not mark its last chunk,
/// the layer adds an empty chunk with this mark. A call that fails ends without such a chunk. The layer ends a call
/// whose chunks exceed its [`StreamLimit`], and answers it with code 3001 (resource exhausted).
#[derive(Clone, Debug)]
#[must_use]
pub struct EmitLayer {
    max_stream_bytes: u64,
}

impl EmitLayer {
    /// Creates the layer with the default limit on the size of a call's chunks.
    pub const fn new() -> Self {
        Self { max_stream_bytes: StreamLimit::DEFAULT_BYTES }
    }

    /// Sets the maximum size of the chunks of one call, in bytes of JSON. Default: 16 MiB.
    pub const fn max_stream_bytes(mut self, bytes: u64) -> Self {
        self.max_stream_bytes = bytes;
        self
    }
}

impl Default for EmitLayer {
    fn default() -> Self {
        Self::new()
    }
}

mgp_types::layer_service! {
    /// The service that [`EmitLayer`] creates.
    pub Emit for EmitLayer
}

impl<S: MgpService> Service<Call> for Emit<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = ResponseFuture<S::Future>;

    mgp_types::always_ready!();

    fn call(&mut self, mut call: Call) -> Self::Future {
        let Some(sink) = CallerSink::of(&call, self.layer.max_stream_bytes) else {
            return ResponseFuture { inner: self.inner.call(call), stream: None, ending: None };
        };
        let stream = sink.stream.clone();
        let cx = call.cx_mut();
        if let Some(stream) = &stream {
            cx.extensions.insert_shared(Arc::clone(stream.limit()));
        }
        cx.outlet = Outlet::new(Arc::new(sink));
        let stream = stream.map(OpenStream);
        ResponseFuture { inner: self.inner.call(call), stream, ending: None }
    }
}

/// Sink that sends the partial results of one call to its caller.
struct CallerSink {
    to: Recipient,
    caller: Arc<PeerInfo>,
    token: Option<Id>,
    /// The sender of the call's chunks; `None` if the caller did not negotiate and request them.
    stream: Option<Arc<ChunkSender>>,
    /// `true` if the caller accepts log messages. A modern caller must request them with each request.
    logs: bool,
    last_step: Mutex<LastStep>,
}

/// The last step of progress that was sent to the caller.
#[derive(Default)]
struct LastStep {
    /// The share of the whole work that was completed, from 0 to 1.
    share: f64,
    /// The last step, as the tool reported it.
    reported: Option<Step>,
    /// The value and the total that were last sent in MCP's form.
    sent: Option<(f64, Option<f64>)>,
}

/// The amount by which the sent value increases if the tool reports a value that is not larger than the previous value.
const MIN_STEP: f64 = 1.0 / 1024.0;

/// The value that MGP adds to the `_meta` of MCP's progress notification: the remaining time. MCP has no member for it.
#[derive(Serialize, Deserialize)]
pub(crate) struct EstimateMeta {
    pub(crate) estimated_remaining_ms: u64,
}

impl CallerSink {
    /// Returns the sink of a request; `None` if nothing can be sent to its caller.
    fn of(call: &Call, max_stream_bytes: u64) -> Option<Self> {
        let cx = call.cx();
        if call.kind() == Kind::Notification || cx.peer.is_closed() {
            return None;
        }
        let to = Recipient {
            peer: cx.peer.clone(),
            scope: cx.scope.clone(),
            principal: cx.principal.clone(),
            key: cx.key,
            id: cx.wire_id.clone()?,
            trace: cx.trace.clone().filter(|_| cx.caller.supports_mgp()),
        };
        let streams = cx.caller.has(Extension::Streaming) && call.params().wants_stream();
        let stream = streams.then(|| {
            let limit = Arc::new(StreamLimit::new(max_stream_bytes));
            ChunkSender::new(to.clone(), limit, cx.extensions.get_shared::<CancelSignal>())
        });
        let logs =
            cx.caller.era == Era::Legacy || call.params().meta_member(MetaKey::LogLevel).is_some();
        Some(Self {
            to,
            caller: Arc::clone(&cx.caller),
            token: call.params().progress_token(),
            stream,
            logs,
            last_step: Mutex::default(),
        })
    }

    async fn chunk(&self, chunk: Chunk) -> Result<(), ConsumerGone> {
        match &self.stream {
            Some(stream) => stream.send(chunk).await,
            None => Ok(()),
        }
    }

    /// Sends progress in MCP's form if the caller gave a token, and in MGP's form if the caller negotiated progress. A
    /// step that changes only the remaining time is not sent in MCP's form.
    async fn progress(&self, step: Step) -> Result<(), ConsumerGone> {
        let (step, share, is_repeat) = self.last_step.lock().replace(step);
        let has_mgp = self.caller.has(Extension::Progress);
        if let Some(token) = self.token.as_ref().filter(|_| !is_repeat) {
            let mut params = step.to_params(token.clone());
            if let Some(estimated_remaining_ms) = step.estimated_remaining_ms.filter(|_| has_mgp)
                && let Ok(estimate) = Payload::of(&EstimateMeta { estimated_remaining_ms })
            {
                params.meta.get_or_insert_default().0.insert(key::MGP, estimate);
            }
            let params = Payload::of(&params);
            self.to.notify(<Progress as Notification>::METHOD, params).await?;
        }
        if has_mgp {
            let mut params = StreamProgressParams::new(self.to.id.clone(), Number::from(share));
            params.message = step.message;
            params.estimated_remaining_ms = step.estimated_remaining_ms;
            params.trace_id = self.to.trace.as_deref().map(str::to_owned);
            let params = Payload::of(&params);
            self.to.notify(<StreamProgress as Notification>::METHOD, params).await?;
        }
        Ok(())
    }
}

impl LastStep {
    /// Stores a reported step as the last step. Returns the step to send, its share of the whole, and whether the step
    /// changes only the remaining time.
    ///
    /// If the total is unknown, a value below 1 counts as the share. Any other value shows nothing about the share, so
    /// the last known share is repeated.
    fn replace(&mut self, mut step: Step) -> (Step, f64, bool) {
        let is_repeat = self.reported.as_ref().is_some_and(|before| {
            (before.progress, before.total) == (step.progress, step.total)
                && before.message == step.message
                && before.estimated_remaining_ms != step.estimated_remaining_ms
        });
        self.reported = Some(step.clone());
        let sent = self.sent.filter(|_| is_repeat).unwrap_or_else(|| self.increase(&step));
        self.sent = Some(sent);
        (step.progress, step.total) = sent;
        if let Some(total) = step.total {
            let share = (step.progress / total).clamp(0.0, 1.0);
            self.share = if share.is_nan() { self.share } else { share };
        } else if (0.0..1.0).contains(&step.progress) {
            self.share = self.share.max(step.progress);
        }
        (step, self.share, is_repeat)
    }

    /// Returns the value and the total with which a step is sent in MCP's form. MCP requires that the value increases.
    /// Therefore, if the value of a step is not larger than the last value, a slightly larger value is sent; such steps
    /// occur e.g. if a tool runs again.
    fn increase(&self, step: &Step) -> (f64, Option<f64>) {
        match self.sent {
            Some((value, total)) if step.progress <= value => {
                let larger = (value + MIN_STEP).max(value.next_up());
                (larger, step.total.or(total).filter(|total| larger <= *total))
            }
            _ => (step.progress, step.total),
        }
    }
}

impl Sink for CallerSink {
    fn send(&self, item: OutletItem) -> BoxFuture<'_, Result<(), ConsumerGone>> {
        match item {
            OutletItem::Chunk(chunk) => Box::pin(self.chunk(chunk)),
            OutletItem::Progress(step) => Box::pin(self.progress(step)),
            OutletItem::Log(params) => Box::pin(self.to.notify(LogMessage::METHOD, Ok(params))),
            OutletItem::Event(params) => {
                Box::pin(self.to.notify(EventNotification::METHOD, Ok(params)))
            }
            OutletItem::Callback(params) => {
                Box::pin(self.to.notify(CallbackRequest::METHOD, Ok(params)))
            }
            // Drop items of kinds that this layer does not know, because it cannot encode them.
            _ => Box::pin(std::future::ready(Ok(()))),
        }
    }

    fn wants(&self, kind: OutletItemKind) -> bool {
        match kind {
            OutletItemKind::Chunk => self.stream.is_some(),
            OutletItemKind::Progress => {
                self.token.is_some() || self.caller.has(Extension::Progress)
            }
            OutletItemKind::Log => self.logs,
            OutletItemKind::Event => self.caller.has(Extension::Events),
            OutletItemKind::Callback => self.caller.has(Extension::Callbacks),
            _ => false,
        }
    }
}

pin_project! {
    /// Response future of [`Emit`], which ends the stream, and adds to the result how much was streamed (MGP §12.5).
    pub struct ResponseFuture<F> {
        #[pin]
        inner: F,
        stream: Option<OpenStream>,
        // The future that ends the stream, and the body to return after it; set when the inner service has answered.
        ending: Option<(BoxFuture<'static, ()>, Body)>,
    }
}

mgp_types::opaque_debug!(ResponseFuture<F>);

/// The sender of a running call's chunks. Dropping it marks the call as over, so that chunks no longer wait until the
/// caller's pace permits them.
struct OpenStream(Arc<ChunkSender>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl<F: Future<Output = Result<Reply, RpcError>>> Future for ResponseFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<F::Output> {
        let this = self.project();
        let Some(OpenStream(stream)) = this.stream else { return this.inner.poll(task) };
        if this.ending.is_none() {
            let outcome = this.inner.poll(task);
            if let Some(refused) = stream.poll_refused(task.waker()) {
                return Poll::Ready(Err(refused.into()));
            }
            match ready!(outcome) {
                Ok(Reply::Complete(body)) if stream.sent() > 0 => {
                    let ending = end_stream(Arc::clone(stream), &body);
                    *this.ending = Some((ending, body));
                }
                outcome => {
                    if matches!(outcome, Ok(Reply::Task(_))) {
                        // The tool continues as a task. The caller of a task cannot set a pace any more, so remove the
                        // limit.
                        stream.set_pace(u32::MAX);
                    }
                    return Poll::Ready(outcome);
                }
            }
        }
        if let Some((ending, _)) = this.ending {
            ready!(ending.as_mut().poll(task));
        }
        Poll::Ready(match this.ending.take() {
            Some((_, body)) => add_stream_summary(body, stream),
            None => Ok(Reply::None),
        })
    }
}

/// Returns the future that sends a last chunk for a finished call, unless a last chunk was already sent or the tool
/// failed.
fn end_stream(stream: Arc<ChunkSender>, body: &Body) -> BoxFuture<'static, ()> {
    let is_error = body.get("isError").is_some_and(|value| value.as_str() == "true");
    if is_error || stream.is_done() {
        return Box::pin(std::future::ready(()));
    }
    let is_whole = result_extension(body).dropped.unwrap_or(0) == 0;
    Box::pin(async move { stream.finish(is_whole).await })
}

fn add_stream_summary(mut body: Body, stream: &ChunkSender) -> Result<Reply, RpcError> {
    let mut mgp = result_extension(&body);
    mgp.streamed = Some(true);
    mgp.chunks_sent = Some(stream.sent());
    if stream.dropped() > 0 {
        mgp.dropped = Some(mgp.dropped.unwrap_or(0).saturating_add(stream.dropped()));
    }
    mgp.duration_ms = Some(mgp_types::millis(stream.since().elapsed()));
    set_result_extension(&mut body, &mgp)?;
    Ok(Reply::Complete(body))
}
