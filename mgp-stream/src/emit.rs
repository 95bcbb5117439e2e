//! The outlet of an inbound call: partial results become notifications (MGP §12.4, §12.6; MCP progress, logging).
//!
//! Items that the caller did not negotiate or ask for are not created.
//!
//! Applies to: inbound.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context as Task, Poll};

use bytestring::ByteString;
use mgp_types::mcp::{Era, ProgressParams};
use mgp_types::method::{
    CallbackRequest, EventNotification, LogMessage, Progress, StreamChunk, StreamProgress,
};
use mgp_types::mgp::{Extension, ResultExtension, StreamProgressParams};
use mgp_types::service::{
    BoxFuture, Call, CallKey, ConsumerGone, Context, Kind, MetaKey, Method, MgpService, Outlet,
    OutletItem, OutletItemKind, Params, Peer, PeerInfo, Principal, Progress as Step, Reply, Scope,
    Sink,
};
use mgp_types::{Id, Number, Payload, RpcError};
use pin_project_lite::pin_project;
use serde::Serialize;
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

use crate::cancel::CancelSignal;

/// Gives each request an [`Outlet`] that sends to its caller.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct EmitLayer(());

impl EmitLayer {
    /// Creates the layer.
    pub const fn new() -> Self {
        Self(())
    }
}

impl<S> Layer<S> for EmitLayer {
    type Service = Emit<S>;

    fn layer(&self, inner: S) -> Emit<S> {
        Emit { inner }
    }
}

/// Service of [`EmitLayer`].
#[derive(Clone)]
pub struct Emit<S> {
    inner: S,
}

mgp_types::opaque_debug!(Emit<S>);

impl<S: MgpService> Service<Call> for Emit<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = ResponseFuture<S::Future>;

    mgp_types::always_ready!();

    fn call(&mut self, mut call: Call) -> Self::Future {
        let Some(sink) = CallerSink::of(&call) else {
            return ResponseFuture { inner: self.inner.call(call), streamed: None };
        };
        let sink = Arc::new(sink);
        call.cx_mut().outlet = Outlet::new(Arc::clone(&sink) as Arc<dyn Sink>);
        let streamed = sink.streams.then(|| (sink, Instant::now()));
        ResponseFuture { inner: self.inner.call(call), streamed }
    }
}

/// Sends partial results of one call to its caller.
struct CallerSink {
    peer: Peer,
    scope: Scope,
    principal: Principal,
    caller: Arc<PeerInfo>,
    key: CallKey,
    /// The id that the caller gave the call.
    id: Id,
    token: Option<Id>,
    /// If set, chunks were negotiated and requested.
    streams: bool,
    /// If set, log messages may be sent: a modern caller asks for them in each request.
    logs: bool,
    /// The trace of the call.
    trace: Option<ByteString>,
    chunks: AtomicU64,
    signal: Option<Arc<CancelSignal>>,
}

impl CallerSink {
    /// Returns the sink of a request; `None` if nothing can be sent to its caller.
    fn of(call: &Call) -> Option<Self> {
        let cx = call.cx();
        if call.kind() == Kind::Notification || cx.peer.is_closed() {
            return None;
        }
        let id = cx.wire_id.clone()?;
        let streams = cx.caller.has(Extension::Streaming) && call.params().wants_stream();
        let signal = if streams { cx.extensions.get_shared::<CancelSignal>() } else { None };
        let token = call.params().progress_token();
        let logs =
            cx.caller.era == Era::Legacy || call.params().meta_member(MetaKey::LogLevel).is_some();
        Some(Self {
            peer: cx.peer.clone(),
            scope: cx.scope.clone(),
            principal: cx.principal.clone(),
            caller: Arc::clone(&cx.caller),
            key: cx.key,
            id,
            token,
            streams,
            logs,
            trace: cx.trace.clone().filter(|_| cx.caller.supports_mgp()),
            chunks: AtomicU64::new(0),
            signal,
        })
    }

    async fn notify(
        &self,
        method: &'static str,
        params: Result<Payload, RpcError>,
    ) -> Result<(), ConsumerGone> {
        let params = params
            .and_then(|params| Params::split(method, params.as_shared().clone()))
            .map_err(|_| ConsumerGone)?;
        let cx = Context::new(self.peer.clone(), self.scope.clone(), self.principal.clone());
        let call = Call::notification(Method::from_static(method), params, cx).related(self.key);
        self.peer.send(call).await.map(drop).map_err(|_| ConsumerGone)
    }

    async fn chunk(&self, content: Payload) -> Result<(), ConsumerGone> {
        #[derive(Serialize)]
        struct Chunk<'a> {
            request_id: &'a Id,
            index: u64,
            content: &'a Payload,
            done: bool,
            #[serde(skip_serializing_if = "Option::is_none")]
            trace_id: Option<&'a str>,
        }
        if let Some(signal) = &self.signal {
            signal.record_chunk(&content);
        }
        let index = self.chunks.fetch_add(1, Ordering::Relaxed);
        let trace_id = self.trace.as_deref();
        let chunk = Chunk { request_id: &self.id, index, content: &content, done: false, trace_id };
        self.notify(<StreamChunk as mgp_types::method::Notification>::METHOD, Payload::of(&chunk))
            .await
    }

    /// Sends progress in MCP's form if the caller gave a token, and in MGP's form if it negotiated progress.
    async fn progress(&self, step: Step) -> Result<(), ConsumerGone> {
        if let Some(token) = &self.token {
            let mut params = ProgressParams::new(token.clone(), Number::from(step.progress));
            params.total = step.total.map(Number::from);
            params.message.clone_from(&step.message);
            self.notify(
                <Progress as mgp_types::method::Notification>::METHOD,
                Payload::of(&params),
            )
            .await?;
        }
        if self.caller.has(Extension::Progress) {
            let share = step.progress / step.total.unwrap_or(1.0);
            let mut params =
                StreamProgressParams::new(self.id.clone(), Number::from(share.clamp(0.0, 1.0)));
            params.message = step.message;
            params.estimated_remaining_ms = step.estimated_remaining_ms;
            params.trace_id = self.trace.as_deref().map(str::to_owned);
            self.notify(
                <StreamProgress as mgp_types::method::Notification>::METHOD,
                Payload::of(&params),
            )
            .await?;
        }
        Ok(())
    }
}

impl Sink for CallerSink {
    fn send(&self, item: OutletItem) -> BoxFuture<'_, Result<(), ConsumerGone>> {
        use mgp_types::method::Notification;
        match item {
            OutletItem::Chunk(content) => Box::pin(self.chunk(content)),
            OutletItem::Progress(step) => Box::pin(self.progress(step)),
            OutletItem::Log(params) => Box::pin(self.notify(LogMessage::METHOD, Ok(params))),
            OutletItem::Event(params) => {
                Box::pin(self.notify(EventNotification::METHOD, Ok(params)))
            }
            OutletItem::Callback(params) => {
                Box::pin(self.notify(CallbackRequest::METHOD, Ok(params)))
            }
            // This layer cannot encode kinds of items that it does not know, so it drops them.
            _ => Box::pin(std::future::ready(Ok(()))),
        }
    }

    fn wants(&self, kind: OutletItemKind) -> bool {
        match kind {
            OutletItemKind::Chunk => self.streams,
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
    /// Response future of [`Emit`]: adds to the result how much was streamed (MGP §12.5).
    pub struct ResponseFuture<F> {
        #[pin]
        inner: F,
        streamed: Option<(Arc<CallerSink>, Instant)>,
    }
}

mgp_types::opaque_debug!(ResponseFuture<F>);

impl<F: Future<Output = Result<Reply, RpcError>>> Future for ResponseFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<F::Output> {
        let this = self.project();
        let outcome = std::task::ready!(this.inner.poll(task));
        Poll::Ready(match this.streamed.take() {
            Some((sink, since)) => {
                outcome.and_then(|reply| add_stream_summary(reply, &sink, since))
            }
            None => outcome,
        })
    }
}

fn add_stream_summary(
    mut reply: Reply,
    sink: &CallerSink,
    since: Instant,
) -> Result<Reply, RpcError> {
    let chunks = sink.chunks.load(Ordering::Relaxed);
    if let (Reply::Complete(body), 1..) = (&mut reply, chunks) {
        let mut mgp = ResultExtension::new();
        mgp.streamed = Some(true);
        mgp.chunks_sent = Some(chunks);
        mgp.duration_ms = Some(mgp_types::millis(since.elapsed()));
        let mgp = Payload::of(&mgp)?;
        // Python and rmcp drop `_mgp` from results and keep `_meta`, so the summary is written to both.
        body.insert_meta(mgp_types::mcp::key::MGP, Payload::of(&MetaCopy { result: &mgp })?);
        body.insert("_mgp", mgp);
    }
    Ok(reply)
}

#[derive(Serialize)]
struct MetaCopy<'a> {
    result: &'a Payload,
}
