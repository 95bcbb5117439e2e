//! An adapter for tower layers from other crates: waits for readiness in each call, and converts errors.
//!
//! Applies to: inbound and outbound.

use std::error::Error as StdError;
use std::future::poll_fn;

use tower_layer::Layer;
use tower_service::Service;

use super::{BoxFuture, Call, Reply};
use crate::wire::RpcError;

/// A wrapper around a layer from another crate. It waits in the future of each call until that layer's service is
/// ready, so the loop that reads the connection is never blocked.
///
/// ```
/// use std::time::Duration;
/// use mgp_types::service::{ReadyPerCall, Router, Stack, mock};
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let limited = ReadyPerCall::new(tower::limit::ConcurrencyLimitLayer::new(1)).layer(Router::new());
/// let mut client = mock::client(Stack::new(limited));
/// assert_eq!(client.request("pong", "{}").await.unwrap_err().code().0, -32601);
/// # });
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct ReadyPerCall<L>(L);

impl<L> ReadyPerCall<L> {
    /// Wraps a layer from another crate.
    pub const fn new(layer: L) -> Self {
        Self(layer)
    }
}

impl<L: Layer<S>, S> Layer<S> for ReadyPerCall<L> {
    type Service = ReadyPerCallService<L::Service>;

    fn layer(&self, inner: S) -> Self::Service {
        ReadyPerCallService(self.0.layer(inner))
    }
}

/// Service of [`ReadyPerCall`].
#[derive(Clone)]
pub struct ReadyPerCallService<S>(S);

crate::opaque_debug!(ReadyPerCallService<S>);

impl<S> Service<Call> for ReadyPerCallService<S>
where
    S: Service<Call, Response = Reply, Future: Send> + Clone + Send + 'static,
    S::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    type Response = Reply;
    type Error = RpcError;
    type Future = BoxFuture<'static, Result<Reply, RpcError>>;
    crate::always_ready!(innermost);

    fn call(&mut self, call: Call) -> Self::Future {
        let mut inner = self.0.clone();
        Box::pin(async move {
            poll_fn(|task| inner.poll_ready(task)).await.map_err(foreign)?;
            inner.call(call).await.map_err(foreign)
        })
    }
}

/// Returns an [`RpcError`] unchanged, and converts any other error of the layer to an internal error.
fn foreign<E: Into<Box<dyn StdError + Send + Sync>>>(error: E) -> RpcError {
    match error.into().downcast::<RpcError>() {
        Ok(own) => *own,
        Err(other) => RpcError::internal(format!("a layer failed: {other}")),
    }
}
