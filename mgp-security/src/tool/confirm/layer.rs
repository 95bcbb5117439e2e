//! The layer that asks for confirmations, and its service.
//!
//! Applies to: both.

use std::fmt;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use mgp_types::RpcError;
use mgp_types::service::{BoxFuture, Call, Either, MgpService, Reply, ServerId, Waited};
use tower_layer::Layer;
use tower_service::Service;

use super::Confirmations;
use super::confirmations::Risky;
use crate::tool::Assess;

/// Runs dangerous calls only with a confirmation (§4.4); the same layer serves inbound and outbound stacks.
///
/// ```
/// use std::sync::Arc;
/// use mgp_security::{Assessment, ConfirmLayer, Confirmations, Elicit, Naming, Policies};
/// use mgp_types::ErrorCode;
/// use mgp_types::service::{Context, Reply, ServerId, Stack, mock};
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let named = |_: &Context, _: Option<&ServerId>, tool: &str| (tool == "wipe").then(|| Naming::by("tool_grant of ada"));
/// let confirmations = Confirmations::new(Policies::default(), Elicit::everyone()).named(named);
/// let unknown = |_: Option<&ServerId>, _: &str| Arc::new(Assessment::unknown());
/// let tools = Stack::from_fn(|_| async { Ok(Reply::empty()) });
/// let mut client = mock::client(Stack::new(ConfirmLayer::new(confirmations, unknown).layer(tools)));
///
/// client.request("tools/call", r#"{"name":"wipe"}"#).await.unwrap();
/// // This client answers no questions, so nobody can confirm the other one.
/// let refused = client.request("tools/call", r#"{"name":"format"}"#).await.unwrap_err();
/// assert_eq!(refused.code(), ErrorCode::PERMISSION_DENIED);
/// # });
/// ```
#[derive(Clone)]
#[must_use]
pub struct ConfirmLayer {
    confirmations: Confirmations,
    tools: Arc<dyn Assess>,
    server: Option<ServerId>,
}

impl ConfirmLayer {
    /// A layer that asks for these confirmations, about tools as they are known there.
    pub fn new(confirmations: Confirmations, tools: impl Assess + 'static) -> Self {
        Self { confirmations, tools: Arc::new(tools), server: None }
    }

    /// Names the server whose tools are called, where the context does not: on the server's own stack.
    pub fn server(mut self, id: impl Into<ServerId>) -> Self {
        self.server = Some(id.into());
        self
    }

    /// The call, where somebody must confirm it.
    fn risky(&self, call: &Call) -> Option<Risky> {
        let tool = call.tool()?.name;
        let cx = call.cx();
        let server = cx.server.as_ref().or(self.server.as_ref());
        let assessment = self.tools.assessment(server, tool);
        if !self.confirmations.are_needed(cx, server, tool, &assessment) {
            return None;
        }
        Some(Risky {
            cx: cx.clone(),
            server: server.cloned(),
            tool: tool.to_owned(),
            arguments: call.tool_arguments(),
            definition: self.tools.definition(server, tool),
            assessment,
        })
    }
}

impl fmt::Debug for ConfirmLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConfirmLayer")
    }
}

impl<S> Layer<S> for ConfirmLayer {
    type Service = Confirm<S>;

    fn layer(&self, inner: S) -> Confirm<S> {
        Confirm { inner, layer: Arc::new(self.clone()) }
    }
}

/// Service of [`ConfirmLayer`].
#[derive(Clone)]
pub struct Confirm<S> {
    inner: S,
    layer: Arc<ConfirmLayer>,
}

impl<S> fmt::Debug for Confirm<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Confirm")
    }
}

impl<S: MgpService> Service<Call> for Confirm<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<S::Future, BoxFuture<'static, Result<Reply, RpcError>>>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, mut call: Call) -> Self::Future {
        let Some(risky) = self.layer.risky(&call) else {
            return Either::Left { future: self.inner.call(call) };
        };
        let layer = self.layer.clone();
        let mut inner = self.inner.clone();
        Either::Right {
            future: Box::pin(async move {
                layer.confirmations.confirm(risky, &*layer.tools).await?;
                Waited::mark(call.cx_mut());
                inner.call(call).await
            }),
        }
    }
}
