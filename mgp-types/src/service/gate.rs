//! Layers created from closures: a gate that admits or refuses calls, and a wrapper around calls.
//!
//! Applies to: inbound and outbound.

use std::future::{Ready, ready};

use tower_layer::Layer;
use tower_service::Service;

use super::{Call, Either, MgpService, Reply, Stack};
use crate::wire::RpcError;

/// Creates a layer from a closure that admits or refuses each call.
///
/// ```
/// use mgp_types::service::{Router, Stack, gate, mock};
/// use mgp_types::{ErrorCode, RpcError};
/// use tower_layer::Layer;
///
/// let no_shell = gate(|call| match call.tool() {
///     Some(tool) if tool.name == "shell" => Err(RpcError::new(ErrorCode::PERMISSION_DENIED, "no shell here")),
///     _ => Ok(()),
/// });
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let mut client = mock::client(Stack::new(no_shell.layer(Router::new())));
/// let error = client.request("tools/call", r#"{"name":"shell"}"#).await.unwrap_err();
/// assert_eq!(error.code(), ErrorCode::PERMISSION_DENIED);
/// # });
/// ```
pub fn gate<F>(check: F) -> GateLayer<F>
where
    F: Fn(&Call) -> Result<(), RpcError> + Clone + Send + Sync + 'static,
{
    GateLayer(check)
}

/// Creates a layer from a closure that receives each call together with the inner stack, and returns the reply.
///
/// ```
/// use mgp_types::service::{Router, Stack, around, mock};
/// use tower_layer::Layer;
///
/// let logged = around(|call, next| async move {
///     let method = call.method().clone();
///     let reply = next.send(call).await;
///     println!("{method}: {}", if reply.is_ok() { "ok" } else { "failed" });
///     reply
/// });
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let mut client = mock::client(logged.layer(Stack::new(Router::new())));
/// assert!(client.request("pong", "{}").await.is_err());
/// # });
/// ```
pub fn around<F, Fut>(wrap: F) -> AroundLayer<F>
where
    F: Fn(Call, Stack) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<Reply, RpcError>> + Send + 'static,
{
    AroundLayer(wrap)
}

/// The layer created by [`around`].
#[derive(Clone)]
#[must_use]
pub struct AroundLayer<F>(F);

crate::opaque_debug!(AroundLayer<F>);

impl<F, Fut> Layer<Stack> for AroundLayer<F>
where
    F: Fn(Call, Stack) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<Reply, RpcError>> + Send + 'static,
{
    type Service = Stack;

    fn layer(&self, inner: Stack) -> Stack {
        let wrap = self.0.clone();
        Stack::from_fn(move |call| wrap(call, inner.clone()))
    }
}

/// The layer created by [`gate`].
#[derive(Clone)]
#[must_use]
pub struct GateLayer<F>(F);

/// The service of [`GateLayer`].
#[derive(Clone)]
pub struct Gate<S, F> {
    inner: S,
    check: F,
}

crate::opaque_debug!(GateLayer<F>);

crate::opaque_debug!(Gate<S, F>);

impl<S, F: Clone> Layer<S> for GateLayer<F> {
    type Service = Gate<S, F>;

    fn layer(&self, inner: S) -> Gate<S, F> {
        Gate { inner, check: self.0.clone() }
    }
}

impl<S, F> Service<Call> for Gate<S, F>
where
    S: MgpService,
    F: Fn(&Call) -> Result<(), RpcError> + Clone + Send + Sync + 'static,
{
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<Ready<Result<Reply, RpcError>>, S::Future>;
    crate::always_ready!();

    fn call(&mut self, call: Call) -> Self::Future {
        match (self.check)(&call) {
            Ok(()) => Either::Right { future: self.inner.call(call) },
            Err(error) => Either::Left { future: ready(Err(error)) },
        }
    }
}
