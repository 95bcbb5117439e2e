//! The audit layer and its service.
//!
//! Applies to: inbound and outbound.

use std::sync::Arc;

use mgp_types::method::Kind;
use mgp_types::mgp::{AuditEvent, RiskLevel};
use mgp_types::service::{
    AgentId, AuditSink, Call, CallRecord, MgpService, Reply, ServerId, Target,
};
use mgp_types::{Payload, RpcError};
use tower_service::Service;

use super::event::{Event, REQUESTS_ONLY, tenant_of, user_of};
use super::future::ResponseFuture;
use super::recorded_arguments::{ArgumentRecorder, AuditConfig};

/// Layer that records tool calls in a sink; works on inbound and outbound stacks.
///
/// A tool call sent as a notification is blocked, and that is recorded too.
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
    settings: Arc<CallSettings>,
}

/// Settings of the layer that apply to every call.
#[derive(Clone)]
struct CallSettings {
    server: Option<ServerId>,
    risk: Option<Arc<RiskOf>>,
    arguments: ArgumentRecorder,
}

type RiskOf = dyn Fn(&Call) -> Option<RiskLevel> + Send + Sync;

impl AuditLayer {
    /// Creates a layer that records in a sink.
    ///
    /// The risk of a call is the [`RiskLevel`] among its extensions, or unknown if there is none.
    pub fn new(sink: Arc<dyn AuditSink>) -> Self {
        let arguments = ArgumentRecorder::new(&AuditConfig::new());
        Self { sink, settings: Arc::new(CallSettings { server: None, risk: None, arguments }) }
    }

    /// Sets how much of the arguments is recorded, and the key with which digests of arguments are computed.
    pub fn config(mut self, config: &AuditConfig) -> Self {
        Arc::make_mut(&mut self.settings).arguments = ArgumentRecorder::new(config);
        self
    }

    /// Sets the id of the server whose tools are called. It is recorded instead of the id in the call's context.
    pub fn server(mut self, id: impl Into<ServerId>) -> Self {
        Arc::make_mut(&mut self.settings).server = Some(id.into());
        self
    }

    /// Sets the function that returns the effective risk of a call. The function is called before any inner layer; an
    /// unknown risk counts as the highest.
    pub fn risk(
        mut self,
        risk_of: impl Fn(&Call) -> Option<RiskLevel> + Send + Sync + 'static,
    ) -> Self {
        Arc::make_mut(&mut self.settings).risk = Some(Arc::new(risk_of));
        self
    }
}

impl CallSettings {
    /// Returns the part of a call's record that is known before the call runs, or `None` if the call is not recorded.
    fn start(&self, call: &mut Call) -> Option<CallRecord> {
        call.tool()?;
        // Create a trace id if the call has none, because the id connects all events of one call.
        call.cx_mut().trace_or_new();
        let mut start = CallRecord::from_call(call)?;
        if let Some(arguments) = call.params().arguments() {
            self.arguments.note(arguments, &mut start);
        }
        self.arguments.note_intent(call.cx(), &start);
        if self.server.is_some() {
            start.server.clone_from(&self.server);
        }
        let (tenant, user) = (tenant_of(&start.principal), user_of(&start.principal));
        for (name, text) in [("tenant", tenant), ("user", user)] {
            if let Some(text) = text.and_then(|text| Payload::of(text).ok()) {
                start.add_note(name, text);
            }
        }
        start.risk = match &self.risk {
            Some(risk_of) => risk_of(call),
            None => call.cx().extensions.get::<RiskLevel>().cloned(),
        };
        Some(start)
    }

    /// Returns the event about a tool call that was sent as a notification; `None` for any other message.
    ///
    /// MCP does not define such a message. A layer could not answer it, but a server might still run the tool, so this
    /// layer blocks it.
    fn blocked(&self, call: &mut Call) -> Option<AuditEvent> {
        if call.kind() != Kind::Notification {
            return None;
        }
        let Some(Target::Tool(tool)) = call.params().target() else { return None };
        let tool = tool.to_owned();
        call.cx_mut().trace_or_new();
        let cx = call.cx();
        let server = self.server.as_ref().or(cx.server.as_ref());
        tracing::warn!(
            server = server.map(ServerId::as_str),
            tool = &*tool,
            agent = cx.principal.as_agent().map(AgentId::as_str),
            trace = cx.trace.as_deref(),
            rule = REQUESTS_ONLY,
            "denied tool call sent as a notification"
        );
        Some(Event::notification_blocked(&cx.principal, server, &tool, cx.trace.as_deref()).build())
    }
}

mgp_types::opaque_debug!(AuditLayer);

mgp_types::layer_service! {
    /// Service of [`AuditLayer`].
    pub Audit for AuditLayer
}

impl<S: MgpService> Service<Call> for Audit<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = ResponseFuture<S>;

    mgp_types::always_ready!();

    fn call(&mut self, mut call: Call) -> Self::Future {
        if let Some(blocked) = self.layer.settings.blocked(&mut call) {
            return ResponseFuture::block(&*self.layer.sink, blocked);
        }
        match self.layer.settings.start(&mut call) {
            Some(start) => ResponseFuture::begin(&self.layer.sink, start, &mut self.inner, call),
            None => ResponseFuture::pass(self.inner.call(call)),
        }
    }
}
