//! The permission layer and its service.
//!
//! Applies to: both.

use std::fmt;
use std::future::ready;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use mgp_types::RpcError;
use mgp_types::service::{BoxFuture, Call, Either, MgpService, Reply, ServerId, Waited};
use tower_layer::Layer;
use tower_service::Service;

use super::permissions::{Permissions, Verdict};
use crate::Refusal;
use crate::definition::Definitions;
use crate::tool::Assessment;

/// Lets a tool run only while every permission it needs is granted, unexpired and in scope for its server.
///
/// ```
/// use mgp_security::{Definitions, PermissionChange, PermissionLayer, Permissions, Policies};
/// use mgp_types::mgp::{Permission, RiskLevel, ToolSecurity};
/// use mgp_types::service::{Principal, Reply, Stack, mock};
/// use mgp_types::{RawObject, mcp};
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let policies = Policies::default();
/// let permissions = Permissions::in_memory(policies.clone());
/// let definitions = Definitions::in_memory(policies);
/// let mut camera = mcp::Tool::new("look", RawObject::empty());
/// let mut security = ToolSecurity::new(RiskLevel::Dangerous);
/// security.permissions_required = vec![Permission::Camera].into();
/// camera.security = Some(security.into());
/// definitions.learn(None, &[camera]);
///
/// let gate = PermissionLayer::new(permissions.clone(), definitions);
/// let tools = Stack::from_fn(|_| async { Ok(Reply::empty()) });
/// let mut client = mock::client(Stack::new(gate.layer(tools)));
/// let refused = client.request("tools/call", r#"{"name":"look"}"#).await.unwrap_err();
/// assert_eq!(refused.code().0, 1000);
///
/// let operator = Principal::local().operator();
/// permissions.approve(&operator, PermissionChange::new(None, [Permission::Camera])).await.unwrap();
/// client.request("tools/call", r#"{"name":"look"}"#).await.unwrap();
/// # });
/// ```
#[derive(Clone)]
#[must_use]
pub struct PermissionLayer {
    permissions: Permissions,
    needs: Needs,
    server: Option<ServerId>,
}

/// What calls of tools need.
#[derive(Clone)]
pub(super) struct Needs(Arc<Find>);

type Find = dyn Fn(Option<&ServerId>, &str) -> Arc<Assessment> + Send + Sync;

impl Needs {
    pub(super) fn of(
        find: impl Fn(Option<&ServerId>, &str) -> Arc<Assessment> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(find))
    }
}

impl PermissionLayer {
    /// A layer that knows what tools need from their definitions.
    pub fn new(permissions: Permissions, definitions: Definitions) -> Self {
        let needs = Needs::of(move |server, tool| definitions.assessment(server, tool));
        Self::with(permissions, needs)
    }

    pub(super) fn with(permissions: Permissions, needs: Needs) -> Self {
        Self { permissions, needs, server: None }
    }

    /// Names the server whose tools are called, where the context does not: on the server's own stack.
    pub fn server(mut self, id: impl Into<ServerId>) -> Self {
        self.server = Some(id.into());
        self
    }
}

impl fmt::Debug for PermissionLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PermissionLayer")
    }
}

impl<S> Layer<S> for PermissionLayer {
    type Service = PermissionGate<S>;

    fn layer(&self, inner: S) -> PermissionGate<S> {
        PermissionGate { inner, layer: Arc::new(self.clone()) }
    }
}

/// Service of [`PermissionLayer`].
#[derive(Clone)]
pub struct PermissionGate<S> {
    inner: S,
    layer: Arc<PermissionLayer>,
}

impl<S> fmt::Debug for PermissionGate<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PermissionGate")
    }
}

impl<S: MgpService> Service<Call> for PermissionGate<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<BoxFuture<'static, Result<Reply, RpcError>>, S::Future>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        let Some(tool) = call.tool() else {
            return Either::Right { future: self.inner.call(call) };
        };
        let layer = &*self.layer;
        let server = call.cx().server.as_ref().or(layer.server.as_ref());
        let assessment = (layer.needs.0)(server, tool.name);
        let needed = assessment.permissions.as_slice();
        // Most tools need nothing.
        if needed.is_empty() {
            return Either::Right { future: self.inner.call(call) };
        }
        let principal = &call.cx().principal;
        match layer.permissions.verdict(principal, server, tool.name, needed, tool.arguments) {
            Verdict::Pass => Either::Right { future: self.inner.call(call) },
            Verdict::Refuse(refused) => {
                let error = Refusal::from(Box::new(refused)).into();
                Either::Left { future: Box::pin(ready(Err(error))) }
            }
            Verdict::Settle => {
                let settled = settle(Arc::clone(&self.layer), self.inner.clone(), call, assessment);
                Either::Left { future: Box::pin(settled) }
            }
        }
    }
}

/// Runs a call once what it needs was asked for and granted; dropping it withdraws the question.
async fn settle<S: MgpService>(
    layer: Arc<PermissionLayer>,
    mut inner: S,
    mut call: Call,
    assessment: Arc<Assessment>,
) -> Result<Reply, RpcError> {
    if let Some(tool) = call.tool() {
        let cx = call.cx();
        let server = cx.server.as_ref().or(layer.server.as_ref());
        let needed = assessment.permissions.as_slice();
        let settled = layer.permissions.settle(cx, server, tool.name, needed, tool.arguments).await;
        settled.map_err(|refused| Refusal::from(Box::new(refused)))?;
    }
    Waited::mark(call.cx_mut());
    inner.call(call).await
}
