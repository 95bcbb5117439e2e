//! Converts a panic of a handler to a well-formed error, so that the connection stays open.
//!
//! Applies to: inbound.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context as Task, Poll};

use mgp_types::RpcError;
use mgp_types::service::{Call, MgpService, Reply};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

/// The error message for the peer. The message of the panic itself is only logged.
const PANICKED: &str = "the handler panicked; see the log of the server";

/// Layer that catches panics of inner services and answers with error −32603 (internal error).
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct CatchPanicLayer(());

impl CatchPanicLayer {
    /// Creates the layer, which has no settings.
    pub const fn new() -> Self {
        Self(())
    }
}

impl<S> Layer<S> for CatchPanicLayer {
    type Service = CatchPanic<S>;

    fn layer(&self, inner: S) -> CatchPanic<S> {
        CatchPanic { inner }
    }
}

/// The service that [`CatchPanicLayer`] creates.
#[derive(Clone)]
pub struct CatchPanic<S> {
    inner: S,
}

mgp_types::opaque_debug!(CatchPanic<S>);

impl<S: MgpService> Service<Call> for CatchPanic<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = ResponseFuture<S::Future>;

    mgp_types::always_ready!();

    fn call(&mut self, call: Call) -> Self::Future {
        // `AssertUnwindSafe` does no harm: a panic can leave the service in any state, but it is not used again for
        // this call.
        match catch_unwind(AssertUnwindSafe(|| self.inner.call(call))) {
            Ok(future) => ResponseFuture { future: Some(future), failed: None },
            Err(panic) => ResponseFuture { future: None, failed: Some(panic_error(&*panic)) },
        }
    }
}

/// Logs a panic and returns the error to send for it, without the panic's message.
#[must_use]
pub fn panic_error(panic: &(dyn Any + Send)) -> RpcError {
    let message = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    tracing::error!(panic = message, "handler panicked");
    RpcError::internal(PANICKED)
}

pin_project! {
    /// Response future of [`CatchPanic`].
    #[derive(Debug)]
    pub struct ResponseFuture<F> {
        #[pin]
        future: Option<F>,
        failed: Option<RpcError>,
    }
}

impl<F: Future<Output = Result<Reply, RpcError>>> Future for ResponseFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        let Some(future) = this.future.as_mut().as_pin_mut() else {
            let error = this.failed.take().unwrap_or_else(|| RpcError::internal(PANICKED));
            return Poll::Ready(Err(error));
        };
        match catch_unwind(AssertUnwindSafe(|| future.poll(task))) {
            Ok(poll) => poll,
            Err(panic) => {
                this.future.set(None);
                Poll::Ready(Err(panic_error(&*panic)))
            }
        }
    }
}
