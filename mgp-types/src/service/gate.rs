//! A gate from a closure: look at a call, let it pass or refuse it.
//!
//! Applies to: both.

use std::fmt;
use std::future::{Ready, ready};
use std::task::{Context as Task, Poll};

use tower_layer::Layer;
use tower_service::Service;

use super::{Call, Either, MgpService, Reply};
use crate::wire::RpcError;

/// Makes a layer from a closure that refuses calls.
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

/// Layer of [`gate`].
#[derive(Clone)]
#[must_use]
pub struct GateLayer<F>(F);

/// Service of [`gate`].
#[derive(Clone)]
pub struct Gate<S, F> {
    inner: S,
    check: F,
}

impl<F> fmt::Debug for GateLayer<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GateLayer")
    }
}

impl<S, F> fmt::Debug for Gate<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gate")
    }
}

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

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        match (self.check)(&call) {
            Ok(()) => Either::Right { future: self.inner.call(call) },
            Err(error) => Either::Left { future: ready(Err(error)) },
        }
    }
}
