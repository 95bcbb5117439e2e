//! The layer and its service, which send the first attempt of a call and store what a retry needs.
//!
//! Applies to: outbound.

use std::sync::Arc;

use mgp_types::RpcError;
use mgp_types::mcp::Tool;
use mgp_types::method::{
    CompletionComplete, PromptsGet, PromptsList, ResourcesDirectoryRead, ResourcesList,
    ResourcesRead, ResourcesTemplatesList, SkillsGet, SkillsList, ToolsList,
};
use mgp_types::mgp::RiskLevel;
use mgp_types::service::{Call, Kind, MgpService, Reply, ServerId};
use tower_layer::Layer;
use tower_service::Service;

use super::attempt_key::AttemptKey;
use super::config::RetryConfig;
use super::delivery::OutletMonitor;
use super::future::ResponseFuture;
use super::retryable_call::RetryableCall;
use super::server::{Server, ServerTable};
use super::tools::{ListPage, ToolRetryInfo};
use crate::error::LifecycleError;

/// Layer that retries failed calls if they might succeed later, within the caller's limits.
///
/// Put it outside all gates (layers that can refuse a call), so that every attempt passes all of them. A clone is
/// cheap. The original, its clones and all stacks that use them share the state of each server.
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
/// // The server is starting: the first two calls arrive too early.
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
pub struct RetryLayer(Arc<RetryContext>);

/// The state that all stacks of a layer share: its configuration, and the state of each server.
#[derive(Clone)]
pub(super) struct RetryContext {
    pub(super) config: Arc<RetryConfig>,
    servers: Arc<ServerTable>,
    server: Option<ServerId>,
    /// The state of the server that is configured in `server`.
    own: Arc<Server>,
    tools: Option<Arc<ToolLookup>>,
    risk: Option<Arc<RiskLookup>>,
}

type ToolLookup = dyn Fn(Option<&ServerId>, &str) -> Option<ToolRetryInfo> + Send + Sync;
type RiskLookup = dyn Fn(&Tool) -> RiskLevel + Send + Sync;

impl RetryLayer {
    /// Creates a layer with this configuration.
    ///
    /// The layer learns about tools from the lists that it passes on, and requests a list from the server when it needs
    /// one.
    pub fn new(config: RetryConfig) -> Self {
        let servers = Arc::new(ServerTable::new());
        let own = servers.of(None);
        let config = Arc::new(config);
        Self(Arc::new(RetryContext { config, servers, server: None, own, tools: None, risk: None }))
    }

    /// Sets the server for calls whose context names no server.
    pub fn server(mut self, id: impl Into<ServerId>) -> Self {
        let context = Arc::make_mut(&mut self.0);
        let id = id.into();
        context.own = context.servers.of(Some(&id));
        context.server = Some(id);
        self
    }

    /// Sets a function that returns the properties of a tool. The layer then neither reads nor requests tool lists.
    pub fn tools(
        mut self,
        known: impl Fn(Option<&ServerId>, &str) -> Option<ToolRetryInfo> + Send + Sync + 'static,
    ) -> Self {
        Arc::make_mut(&mut self.0).tools = Some(Arc::new(known));
        self
    }

    /// Sets a function that returns the effective risk of a listed tool; by default it is the declared risk.
    pub fn risk(mut self, of: impl Fn(&Tool) -> RiskLevel + Send + Sync + 'static) -> Self {
        Arc::make_mut(&mut self.0).risk = Some(Arc::new(of));
        self
    }

    /// Resets the state of a server that was restarted: closes its circuit, and removes its tools.
    pub fn restarted(&self, server: Option<&ServerId>) {
        self.0.of(server).reset();
    }

    /// Removes the stored tools of a server that reported a change of its tools.
    pub fn tools_changed(&self, server: Option<&ServerId>) {
        self.0.of(server).tools.lock().clear();
    }
}

impl From<RetryConfig> for RetryLayer {
    fn from(config: RetryConfig) -> Self {
        Self::new(config)
    }
}

impl RetryContext {
    /// Returns the state of a server on which retries depend, e.g. its circuit breaker. Calls without a server id use
    /// the state of the configured server.
    fn of(&self, id: Option<&ServerId>) -> Arc<Server> {
        // In the common case, the call goes to the configured server.
        if id.is_none() || id == self.server.as_ref() {
            return Arc::clone(&self.own);
        }
        self.servers.of(id)
    }

    pub(super) fn known(&self, server: &Server, tool: &str) -> Option<ToolRetryInfo> {
        match &self.tools {
            Some(known) => known(server.id(), tool),
            None => server.tools.lock().get(tool).cloned(),
        }
    }

    /// Returns whether the layer learns about tools from the lists that it passes on.
    pub(super) fn learns(&self) -> bool {
        self.tools.is_none()
    }

    /// Stores the tools of a list that passes through the layer. The list was requested after the server had reported
    /// this number of changes. Returns the cursor of the next page.
    pub(super) fn learn(
        &self,
        server: &Server,
        reply: &Reply,
        page: ListPage,
        changes: u64,
    ) -> Option<String> {
        server.tools.lock().store_page(reply, page, changes, |tool| match &self.risk {
            Some(of) => of(tool),
            None => ToolRetryInfo::declared_risk(tool),
        })
    }
}

mgp_types::opaque_debug!(RetryLayer);

impl<S> Layer<S> for RetryLayer {
    type Service = Retry<S>;

    fn layer(&self, inner: S) -> Retry<S> {
        Retry { inner, context: Arc::clone(&self.0) }
    }
}

/// The service that [`RetryLayer`] creates.
#[derive(Clone)]
pub struct Retry<S> {
    inner: S,
    context: Arc<RetryContext>,
}

mgp_types::opaque_debug!(Retry<S>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// A tool call, which can have any effect.
    Tool,
    /// A request for a list of tools.
    List(ListPage),
    /// Another request that only reads, e.g. for a resource.
    Read,
}

impl RequestKind {
    /// Returns the kind of a call; `None` if it is never retried.
    fn of(call: &Call) -> Option<Self> {
        if call.tool().is_some() {
            return Some(Self::Tool);
        }
        if call.kind() != Kind::Request {
            return None;
        }
        if call.is::<ToolsList>() {
            let further = call.params().may_contain_member("\"cursor\"");
            return Some(Self::List(if further { ListPage::Next } else { ListPage::First }));
        }
        let reads = call.is::<ResourcesRead>()
            || call.is::<ResourcesDirectoryRead>()
            || call.is::<SkillsList>()
            || call.is::<SkillsGet>()
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

    mgp_types::always_ready!();

    fn call(&mut self, mut call: Call) -> Self::Future {
        let Some(kind) = RequestKind::of(&call) else {
            return ResponseFuture::pass(self.inner.call(call));
        };
        let server = self.context.of(call.cx().server.as_ref());
        let probe = match server.admit(&self.context.config.circuit) {
            Ok(probe) => probe,
            Err(wait) => {
                let server = server.id().cloned();
                return ResponseFuture::refuse(LifecycleError::CircuitOpen { server, wait }.into());
            }
        };
        server.count_call();
        let mut key = None;
        if kind == RequestKind::Tool {
            // Set the trace id and the key here, so that all attempts share them.
            call.cx_mut().trace_or_new();
            key = AttemptKey::attach(&mut call, self.context.config.keys);
        }
        let changes = match kind {
            RequestKind::List(_) => server.tools.lock().changes(),
            RequestKind::Tool | RequestKind::Read => 0,
        };
        let monitor = OutletMonitor::attach(&mut call);
        let retryable = RetryableCall {
            call: call.clone(),
            inner: self.inner.clone(),
            context: Arc::clone(&self.context),
            server,
            monitor,
            key,
            probe,
            kind,
            changes,
        };
        ResponseFuture::first(self.inner.call(call), retryable)
    }
}
