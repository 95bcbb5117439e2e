//! Opens the way back of an inbound call: partial results become notifications (MGP §12.4, §12.6; MCP progress, logging).
//!
//! What the caller did not negotiate or ask for is not made at all.
//!
//! Applies to: inbound.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context as Task, Poll};

use mgp_types::mcp::{Era, ProgressParams};
use mgp_types::method::{
    CallbackRequest, EventNotification, LogMessage, Progress, StreamChunk, StreamProgress,
};
use mgp_types::mgp::{Extension, ResultExtension, StreamProgressParams};
use mgp_types::service::{
    BoxFuture, Call, CallKey, Context, Facts, Gone, Item, ItemKind, Kind, MetaKey, Method,
    MgpService, Outlet, Params, Peer, Principal, Progress as Step, Reply, Scope, Sink,
};
use mgp_types::{Id, Number, Payload, RpcError};
use pin_project_lite::pin_project;
use serde::Serialize;
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

use crate::cancel::CancelSignal;

/// Gives each request an [`Outlet`] that writes to its caller.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct EmitLayer(());

impl EmitLayer {
    /// The layer.
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

impl<S> fmt::Debug for Emit<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Emit")
    }
}

impl<S: MgpService> Service<Call> for Emit<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, mut call: Call) -> Self::Future {
        let Some(back) = Back::of(&call) else {
            return ResponseFuture { inner: self.inner.call(call), streamed: None };
        };
        let back = Arc::new(back);
        call.cx_mut().outlet = Outlet::new(Arc::clone(&back) as Arc<dyn Sink>);
        let streamed = back.streams.then(|| (back, Instant::now()));
        ResponseFuture { inner: self.inner.call(call), streamed }
    }
}

/// The way back to one caller.
struct Back {
    peer: Peer,
    scope: Scope,
    principal: Principal,
    caller: Arc<Facts>,
    key: CallKey,
    /// The id the caller gave the call.
    id: Id,
    token: Option<Id>,
    /// Chunks were negotiated and asked for.
    streams: bool,
    /// Log messages may go out: a modern caller says so in each request.
    logs: bool,
    chunks: AtomicU64,
    signal: Option<Arc<CancelSignal>>,
}

impl Back {
    /// The way back of a request; `None` where nothing could go back.
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
            chunks: AtomicU64::new(0),
            signal,
        })
    }

    async fn tell(
        &self,
        method: &'static str,
        params: Result<Payload, RpcError>,
    ) -> Result<(), Gone> {
        let params = params
            .and_then(|params| Params::split(method, params.as_shared().clone()))
            .map_err(|_| Gone)?;
        let cx = Context::new(self.peer.clone(), self.scope.clone(), self.principal.clone());
        let call = Call::notification(Method::from_static(method), params, cx).related(self.key);
        self.peer.send(call).await.map(drop).map_err(|_| Gone)
    }

    async fn chunk(&self, content: Payload) -> Result<(), Gone> {
        #[derive(Serialize)]
        struct Chunk<'a> {
            request_id: &'a Id,
            index: u64,
            content: &'a Payload,
            done: bool,
        }
        if let Some(signal) = &self.signal {
            signal.sent(&content);
        }
        let index = self.chunks.fetch_add(1, Ordering::Relaxed);
        let chunk = Chunk { request_id: &self.id, index, content: &content, done: false };
        self.tell(<StreamChunk as mgp_types::method::Notification>::METHOD, Payload::of(&chunk))
            .await
    }

    /// Progress goes out in MCP's form where the caller gave a token, and in MGP's where it negotiated streaming.
    async fn progress(&self, step: Step) -> Result<(), Gone> {
        if let Some(token) = &self.token {
            let mut params = ProgressParams::new(token.clone(), Number::from(step.progress));
            params.total = step.total.map(Number::from);
            params.message.clone_from(&step.message);
            self.tell(<Progress as mgp_types::method::Notification>::METHOD, Payload::of(&params))
                .await?;
        }
        if self.caller.has(Extension::Progress) {
            let share = step.progress / step.total.unwrap_or(1.0);
            let mut params =
                StreamProgressParams::new(self.id.clone(), Number::from(share.clamp(0.0, 1.0)));
            params.message = step.message;
            params.estimated_remaining_ms = step.estimated_remaining_ms;
            self.tell(
                <StreamProgress as mgp_types::method::Notification>::METHOD,
                Payload::of(&params),
            )
            .await?;
        }
        Ok(())
    }
}

impl Sink for Back {
    fn send(&self, item: Item) -> BoxFuture<'_, Result<(), Gone>> {
        use mgp_types::method::Notification;
        match item {
            Item::Chunk(content) => Box::pin(self.chunk(content)),
            Item::Progress(step) => Box::pin(self.progress(step)),
            Item::Log(params) => Box::pin(self.tell(LogMessage::METHOD, Ok(params))),
            Item::Event(params) => Box::pin(self.tell(EventNotification::METHOD, Ok(params))),
            Item::Callback(params) => Box::pin(self.tell(CallbackRequest::METHOD, Ok(params))),
            // A kind of item this layer does not know has no form on the wire.
            _ => Box::pin(std::future::ready(Ok(()))),
        }
    }

    fn wants(&self, kind: ItemKind) -> bool {
        match kind {
            ItemKind::Chunk => self.streams,
            ItemKind::Progress => self.token.is_some() || self.caller.has(Extension::Progress),
            ItemKind::Log => self.logs,
            ItemKind::Event => self.caller.has(Extension::Events),
            ItemKind::Callback => self.caller.has(Extension::Callbacks),
            _ => false,
        }
    }
}

pin_project! {
    /// Response future of [`Emit`]: says in the result how much was streamed (§12.5).
    pub struct ResponseFuture<F> {
        #[pin]
        inner: F,
        streamed: Option<(Arc<Back>, Instant)>,
    }
}

impl<F> fmt::Debug for ResponseFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseFuture")
    }
}

impl<F: Future<Output = Result<Reply, RpcError>>> Future for ResponseFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<F::Output> {
        let this = self.project();
        let outcome = std::task::ready!(this.inner.poll(task));
        Poll::Ready(match this.streamed.take() {
            Some((back, since)) => outcome.and_then(|reply| note_stream(reply, &back, since)),
            None => outcome,
        })
    }
}

fn note_stream(mut reply: Reply, back: &Back, since: Instant) -> Result<Reply, RpcError> {
    let chunks = back.chunks.load(Ordering::Relaxed);
    if let (Reply::Complete(body), 1..) = (&mut reply, chunks) {
        let mut mgp = ResultExtension::new();
        mgp.streamed = Some(true);
        mgp.chunks_sent = Some(chunks);
        mgp.duration_ms = Some(u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX));
        let mgp = Payload::of(&mgp)?;
        // Python and rmcp drop `_mgp` from results and keep `_meta`: it stands in both.
        body.insert_meta(mgp_types::mcp::key::MGP, Payload::of(&Mirror { result: &mgp })?);
        body.insert("_mgp", mgp);
    }
    Ok(reply)
}

#[derive(Serialize)]
struct Mirror<'a> {
    result: &'a Payload,
}
