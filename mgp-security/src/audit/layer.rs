//! The audit layer and its service.
//!
//! Applies to: both.

use std::fmt;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use mgp_types::method::Kind;
use mgp_types::mgp::{AuditEvent, RiskLevel};
use mgp_types::service::{AuditSink, Call, MgpService, Reply, ServerId, Start, Target};
use mgp_types::{Payload, RpcError};
use tower_layer::Layer;
use tower_service::Service;

use super::arguments::{AuditConfig, Recorder};
use super::event::{Event, tenant_of};
use super::future::ResponseFuture;

/// Records tool calls in a sink; the same layer serves inbound and outbound stacks.
///
/// A tool call that comes as a notification goes no further, and that is recorded too.
///
/// ```
/// use std::sync::Arc;
/// use mgp_security::AuditLayer;
/// use mgp_types::service::{MemoryAudit, Reply, Stack, gate, mock};
/// use mgp_types::{ErrorCode, RpcError};
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let log = MemoryAudit::new();
/// let audit = AuditLayer::new(Arc::new(log.clone()));
/// let no_shell = gate(|call| match call.tool() {
///     Some(tool) if tool.name == "shell" => Err(RpcError::new(ErrorCode::ACCESS_DENIED, "no shell here")),
///     _ => Ok(()),
/// });
/// let tools = Stack::from_fn(|_| async { Ok(Reply::empty()) });
/// let mut client = mock::client(Stack::new(audit.layer(no_shell.layer(tools))));
///
/// client.request("tools/call", r#"{"name":"water"}"#).await.unwrap();
/// client.request("tools/call", r#"{"name":"shell"}"#).await.unwrap_err();
/// let types: Vec<_> = log.events().into_iter().map(|event| event.event_type.to_string()).collect();
/// assert_eq!(types, ["TOOL_EXECUTED", "TOOL_BLOCKED"]);
/// # });
/// ```
#[derive(Clone)]
#[must_use]
pub struct AuditLayer {
    sink: Arc<dyn AuditSink>,
    facts: Arc<CallFacts>,
}

/// What the layer knows of every call.
#[derive(Clone)]
struct CallFacts {
    server: Option<ServerId>,
    risk: Option<Arc<RiskOf>>,
    arguments: Recorder,
}

type RiskOf = dyn Fn(&Call) -> Option<RiskLevel> + Send + Sync;

impl AuditLayer {
    /// A layer that records in a sink.
    ///
    /// The risk of a call is the [`RiskLevel`] among its extensions; unless one is there it is unknown.
    pub fn new(sink: Arc<dyn AuditSink>) -> Self {
        let arguments = Recorder::new(&AuditConfig::new());
        Self { sink, facts: Arc::new(CallFacts { server: None, risk: None, arguments }) }
    }

    /// Sets how much of the arguments is recorded, and the key of their digests.
    pub fn config(mut self, config: &AuditConfig) -> Self {
        Arc::make_mut(&mut self.facts).arguments = Recorder::new(config);
        self
    }

    /// Names the server whose tools are called, whatever the context says.
    pub fn server(mut self, id: impl Into<ServerId>) -> Self {
        Arc::make_mut(&mut self.facts).server = Some(id.into());
        self
    }

    /// Finds the effective risk of a call, before any gate has seen it; an unknown one counts as the highest.
    pub fn risk(mut self, of: impl Fn(&Call) -> Option<RiskLevel> + Send + Sync + 'static) -> Self {
        Arc::make_mut(&mut self.facts).risk = Some(Arc::new(of));
        self
    }
}

impl CallFacts {
    /// What is recorded of a call before it runs; none where it is not recorded.
    fn start(&self, call: &mut Call) -> Option<Start> {
        call.tool()?;
        // Without a trace nothing would join the events of the call.
        call.cx_mut().trace_or_new();
        let mut start = Start::of(call)?;
        if let Some(arguments) = call.params().arguments() {
            self.arguments.note(arguments, &mut start);
        }
        if self.server.is_some() {
            start.server.clone_from(&self.server);
        }
        if let Some(tenant) = tenant_of(&start.principal)
            && let Ok(tenant) = Payload::of(tenant)
        {
            start.note("tenant", tenant);
        }
        start.risk = match &self.risk {
            Some(of) => of(call),
            None => call.cx().extensions.get::<RiskLevel>().cloned(),
        };
        Some(start)
    }
}

impl CallFacts {
    /// The record of a tool call that came as a notification.
    ///
    /// MCP has no such thing, gates that answer would answer nobody, and a server might run it all the same.
    fn blocked(&self, call: &mut Call) -> Option<AuditEvent> {
        if call.kind() != Kind::Notification {
            return None;
        }
        let Some(Target::Tool(tool)) = call.params().target() else { return None };
        let tool = tool.to_owned();
        call.cx_mut().trace_or_new();
        let cx = call.cx();
        let server = self.server.as_ref().or(cx.server.as_ref());
        Some(Event::notification_blocked(&cx.principal, server, &tool, cx.trace.as_deref()).build())
    }
}

impl fmt::Debug for AuditLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuditLayer")
    }
}

impl<S> Layer<S> for AuditLayer {
    type Service = Audit<S>;

    fn layer(&self, inner: S) -> Audit<S> {
        Audit { inner, layer: self.clone() }
    }
}

/// Service of [`AuditLayer`].
#[derive(Clone)]
pub struct Audit<S> {
    inner: S,
    layer: AuditLayer,
}

impl<S> fmt::Debug for Audit<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Audit")
    }
}

impl<S: MgpService> Service<Call> for Audit<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = ResponseFuture<S>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, mut call: Call) -> Self::Future {
        if let Some(blocked) = self.layer.facts.blocked(&mut call) {
            return ResponseFuture::block(&*self.layer.sink, blocked);
        }
        match self.layer.facts.start(&mut call) {
            Some(start) => ResponseFuture::begin(&self.layer.sink, start, &mut self.inner, call),
            None => ResponseFuture::pass(self.inner.call(call)),
        }
    }
}
