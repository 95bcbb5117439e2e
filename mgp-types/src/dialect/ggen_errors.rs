//! A layer that converts errors to those of ggen, another tool protocol.
//!
//! Applies to: inbound.

use tower_layer::Layer;
use tower_service::Service;

use super::ggen::convert;
use crate::RpcError;
use crate::service::{BoxFuture, Call, MgpService, Reply};

/// A layer that converts each error of the inner service to the codes and data of ggen, for a server whose callers
/// expect these.
///
/// ```
/// use mgp_types::dialect::GgenErrorsLayer;
/// use mgp_types::service::{Stack, mock};
/// use mgp_types::{ErrorCode, RpcError};
/// use tower_layer::Layer as _;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let refuse = Stack::from_fn(|_| async { Err(RpcError::new(ErrorCode::TOOL_NOT_FOUND, "unknown tool")) });
/// let mut client = mock::client(Stack::new(GgenErrorsLayer.layer(refuse)));
/// let error = client.request("tools/call", r#"{"name":"x"}"#).await.unwrap_err();
/// assert_eq!(error.code(), ErrorCode(-32002));
/// # });
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct GgenErrorsLayer;

/// Service of [`GgenErrorsLayer`].
#[derive(Clone, Copy, Debug)]
pub struct GgenErrors<S> {
    inner: S,
}

impl<S> Layer<S> for GgenErrorsLayer {
    type Service = GgenErrors<S>;

    fn layer(&self, inner: S) -> Self::Service {
        GgenErrors { inner }
    }
}

impl<S: MgpService> Service<Call> for GgenErrors<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = BoxFuture<'static, Result<Reply, RpcError>>;
    crate::always_ready!();

    fn call(&mut self, call: Call) -> Self::Future {
        let cx = call.cx().clone();
        let running = self.inner.call(call);
        Box::pin(async move {
            let trace = || cx.trace.as_deref().unwrap_or_default().to_owned();
            running.await.map_err(|error| convert(&error, &trace()))
        })
    }
}
