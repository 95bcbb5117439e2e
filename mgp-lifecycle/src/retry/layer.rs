//! The layer and its service: what is done on the way of a call that goes well.
//!
//! Applies to: outbound.

use std::fmt;
use std::sync::Arc;
use std::task::{Context as Task, Poll};
use std::time::Duration;

use mgp_types::RpcError;
use mgp_types::mcp::Tool;
use mgp_types::method::{
    CompletionComplete, PromptsGet, PromptsList, ResourcesList, ResourcesRead,
    ResourcesTemplatesList, ToolsList,
};
use mgp_types::mgp::RiskLevel;
use mgp_types::service::{Call, Kind, MgpService, Reply, ServerId};
use tower_layer::Layer;
use tower_service::Service;

use super::config::RetryConfig;
use super::future::{Kept, ResponseFuture};
use super::heard::Ear;
use super::known::{KnownTool, Page};
use super::server::{Server, Servers};
use crate::error::Refusal;

/// Makes calls again that failed and may go better, within the caller's bounds.
///
/// It stands outside all gates: every attempt passes all of them.
/// It is a cheap handle: what it keeps of servers is shared by all stacks it is put on.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use mgp_lifecycle::{RetryConfig, RetryLayer};
/// use mgp_types::service::{Reply, Stack, mock};
/// use mgp_types::{ErrorCode, RpcError};
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
/// let calls = Arc::new(AtomicU32::new(0));
/// let count = Arc::clone(&calls);
/// // It starts: the first two calls come too early.
/// let starts = Stack::from_fn(move |_| {
///     let early = count.fetch_add(1, Ordering::Relaxed) < 2;
///     async move {
///         if early { Err(RpcError::new(ErrorCode::SERVER_NOT_READY, "starting")) } else { Ok(Reply::empty()) }
///     }
/// });
/// let layer = RetryLayer::new(RetryConfig::default());
/// let mut client = mock::client(Stack::new(layer.layer(starts)));
/// client.request("tools/call", r#"{"name":"greet"}"#).await.unwrap();
/// assert_eq!(calls.load(Ordering::Relaxed), 3);
/// # });
/// ```
#[derive(Clone)]
#[must_use]
pub struct RetryLayer(Arc<Place>);

/// What a layer knows of the place where it stands.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) config: Arc<RetryConfig>,
    servers: Arc<Servers>,
    server: Option<ServerId>,
    /// What is kept of that one.
    own: Arc<Server>,
    tools: Option<Arc<Lookup>>,
    risk: Option<Arc<RiskOf>>,
}

type Lookup = dyn Fn(Option<&ServerId>, &str) -> Option<KnownTool> + Send + Sync;
type RiskOf = dyn Fn(&Tool) -> RiskLevel + Send + Sync;

impl RetryLayer {
    /// A layer with these bounds.
    ///
    /// What tools are it learns from the lists that pass, and where it must know, it asks the server for one.
    pub fn new(config: RetryConfig) -> Self {
        let servers = Arc::new(Servers::new());
        let own = servers.of(None);
        let config = Arc::new(config);
        Self(Arc::new(Place { config, servers, server: None, own, tools: None, risk: None }))
    }

    /// Names the server of calls that do not say where they go.
    pub fn server(mut self, id: impl Into<ServerId>) -> Self {
        let place = Arc::make_mut(&mut self.0);
        let id = id.into();
        place.own = place.servers.of(Some(&id));
        place.server = Some(id);
        self
    }

    /// Finds what is known of a tool; lists are not looked at then.
    pub fn tools(
        mut self,
        known: impl Fn(Option<&ServerId>, &str) -> Option<KnownTool> + Send + Sync + 'static,
    ) -> Self {
        Arc::make_mut(&mut self.0).tools = Some(Arc::new(known));
        self
    }

    /// Finds the effective risk of a listed tool; without it a tool is as dangerous as it says, or dangerous.
    pub fn risk(mut self, of: impl Fn(&Tool) -> RiskLevel + Send + Sync + 'static) -> Self {
        Arc::make_mut(&mut self.0).risk = Some(Arc::new(of));
        self
    }

    /// Begins anew with a server that was started again: it is not left alone, and its tools are those it lists next.
    pub fn restarted(&self, server: Option<&ServerId>) {
        self.0.of(server).reset();
    }

    /// Forgets the tools of a server that says that they changed.
    pub fn tools_changed(&self, server: Option<&ServerId>) {
        self.0.of(server).tools().forget();
    }
}

impl From<RetryConfig> for RetryLayer {
    fn from(config: RetryConfig) -> Self {
        Self::new(config)
    }
}

impl Place {
    /// What is kept of a server.
    fn of(&self, id: Option<&ServerId>) -> Arc<Server> {
        // The rule: all calls go to the one server.
        if id.is_none() || id == self.server.as_ref() {
            return Arc::clone(&self.own);
        }
        self.servers.of(id)
    }

    /// What is known of a tool.
    pub(super) fn known(&self, server: &Server, tool: &str) -> Option<KnownTool> {
        match &self.tools {
            Some(known) => known(server.id(), tool),
            None => server.tools().get(tool).cloned(),
        }
    }

    /// Whether what is known of tools comes from the lists that pass.
    pub(super) fn learns(&self) -> bool {
        self.tools.is_none()
    }

    /// Takes note of a list that passes.
    pub(super) fn learn(&self, server: &Server, reply: &Reply, page: Page) {
        server.tools().take(reply, page, |tool| match &self.risk {
            Some(of) => of(tool),
            None => KnownTool::declared_risk(tool),
        });
    }
}

impl fmt::Debug for RetryLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.config.fmt(f)
    }
}

impl<S> Layer<S> for RetryLayer {
    type Service = Retry<S>;

    fn layer(&self, inner: S) -> Retry<S> {
        Retry { inner, place: Arc::clone(&self.0) }
    }
}

/// Service of [`RetryLayer`].
#[derive(Clone)]
pub struct Retry<S> {
    inner: S,
    place: Arc<Place>,
}

impl<S> fmt::Debug for Retry<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.place.config.fmt(f)
    }
}

/// What kind of call it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A tool is called, which may change anything.
    Tool,
    /// The tools are listed.
    List(Page),
    /// Something else is read.
    Read,
}

impl What {
    /// The kind of a call; none where it is not made again.
    fn of(call: &Call) -> Option<Self> {
        if call.tool().is_some() {
            return Some(Self::Tool);
        }
        if call.kind() != Kind::Request {
            return None;
        }
        if call.is::<ToolsList>() {
            let further = call.params().mentions("\"cursor\"");
            return Some(Self::List(if further { Page::Further } else { Page::First }));
        }
        let reads = call.is::<ResourcesRead>()
            || call.is::<ResourcesList>()
            || call.is::<ResourcesTemplatesList>()
            || call.is::<PromptsList>()
            || call.is::<PromptsGet>()
            || call.is::<CompletionComplete>();
        reads.then_some(Self::Read)
    }
}

impl<S: MgpService> Service<Call> for Retry<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = ResponseFuture<S>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, mut call: Call) -> Self::Future {
        let Some(what) = What::of(&call) else {
            return ResponseFuture::pass(self.inner.call(call));
        };
        let server = self.place.of(call.cx().server.as_ref());
        let probe = match server.admit() {
            Ok(probe) => probe,
            Err(wait) => return ResponseFuture::refuse(left_alone(&server, wait)),
        };
        server.count();
        if what == What::Tool {
            // All attempts are of one trace; who records them would make one for each.
            call.cx_mut().trace_or_new();
        }
        let ear = Ear::listen(&mut call);
        let kept = Kept {
            call: call.clone(),
            inner: self.inner.clone(),
            place: Arc::clone(&self.place),
            server,
            ear,
            probe,
            what,
        };
        ResponseFuture::first(self.inner.call(call), kept)
    }
}

/// The refusal of a call whose server is left alone.
pub(super) fn left_alone(server: &Server, wait: Duration) -> RpcError {
    Refusal::CircuitOpen { server: server.id().cloned(), wait }.into()
}
