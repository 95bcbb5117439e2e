//! Routes of methods that only operators may call.

use std::future::Future;
use std::sync::Arc;

use mgp_security::{Administration, Event, Refusal};
use mgp_types::method::Request;
use mgp_types::service::{Authority, Context, Reply, Router, ServerId, Stack};
use mgp_types::{ErrorCode, RpcError};

use crate::fleet::ManagedServer;
use crate::handle::Kernel;

/// A builder of the router of methods that only operators may call.
pub(super) struct OperatorMethods {
    kernel: Kernel,
    router: Router,
}

impl OperatorMethods {
    pub(super) fn new(kernel: &Kernel) -> Self {
        Self { kernel: kernel.clone(), router: Router::new() }
    }

    pub(super) fn into_router(self) -> Router {
        self.router
    }

    /// Adds a method. Only operators whose authority includes this kind of administration can call it.
    pub(super) fn on<R, F, Fut>(mut self, kind: Administration, handler: F) -> Self
    where
        R: Request,
        F: Fn(Kernel, Context, R::Params) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R::Result, RpcError>> + Send + 'static,
    {
        let (kernel, handler) = (self.kernel.clone(), Arc::new(handler));
        let stack = Stack::from_fn(move |call| {
            let (kernel, handler) = (kernel.clone(), Arc::clone(&handler));
            async move {
                kernel.governance().operators_only(&call, kind, R::METHOD).await?;
                let (_, params, cx) = call.into_parts();
                Reply::of(&handler(kernel, cx, params.get()?).await?)
            }
        });
        self.router = self.router.route(R::METHOD, stack);
        self
    }
}

pub(super) fn find_server(kernel: &Kernel, id: &str) -> Result<Arc<ManagedServer>, RpcError> {
    kernel.0.fleet.get(id).ok_or_else(|| {
        if !is_disabled(kernel, id) {
            return unknown_server(id);
        }
        let message = format!("`{id}` is disabled; run `mgp servers enable {id}`");
        RpcError::new(ErrorCode::INVALID_PARAMS, message)
    })
}

/// Finds the server about which an operator decides for the operator's own tenant. An operator of a tenant other than
/// `local` finds only servers that are configured for that tenant.
pub(super) fn find_own_server(
    kernel: &Kernel,
    cx: &Context,
    id: &str,
) -> Result<Arc<ManagedServer>, RpcError> {
    let by = &cx.principal;
    if by.authority() == Authority::Operator {
        return find_server(kernel, id);
    }
    let is_admitted = kernel.governance().policies().admits(Some(id), by.tenant().as_str());
    kernel.0.fleet.get(id).filter(|_| is_admitted).ok_or_else(|| unknown_server(id))
}

fn unknown_server(id: &str) -> RpcError {
    let message = format!("there is no server `{id}`; `mgp servers ls` lists them");
    RpcError::new(ErrorCode::INVALID_PARAMS, message)
}

/// Returns whether the configuration switches off a server.
pub(super) fn is_disabled(kernel: &Kernel, id: &str) -> bool {
    kernel.0.config.disabled().iter().any(|disabled| disabled == id)
}

/// Records an operator's action in the audit log. This is needed for actions that cause no other audit event.
pub(super) async fn record(
    kernel: &Kernel,
    cx: &Context,
    server: Option<&ServerId>,
    method: &'static str,
) -> Result<(), RpcError> {
    let event = Event::administered(&cx.principal, server, method).in_call(cx);
    let recorded = kernel.governance().audit().record(event.build()).await;
    recorded.map_err(|error| Refusal::Unaudited(error).into())
}
