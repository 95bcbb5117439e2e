//! A span around each call, with the trace it belongs to (MGP §6.5).
//!
//! Applies to: both.

use std::fmt;
use std::task::{Context as Task, Poll};

use mgp_types::RpcError;
use mgp_types::service::{Call, MgpService, Reply};
use tower_layer::Layer;
use tower_service::Service;
use tracing::Instrument;
use tracing::instrument::Instrumented;

/// Opens a `call` span with method, tool and trace id.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct TraceLayer(());

impl TraceLayer {
    /// The layer.
    pub const fn new() -> Self {
        Self(())
    }
}

impl<S> Layer<S> for TraceLayer {
    type Service = Trace<S>;

    fn layer(&self, inner: S) -> Trace<S> {
        Trace { inner }
    }
}

/// Service of [`TraceLayer`].
#[derive(Clone)]
pub struct Trace<S> {
    inner: S,
}

impl<S> fmt::Debug for Trace<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trace")
    }
}

impl<S: MgpService> Service<Call> for Trace<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Instrumented<S::Future>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, mut call: Call) -> Self::Future {
        // What the caller says wins over nothing; a forwarded call brings its trace in the context.
        if let Some(trace) = call.params().trace_id() {
            call.cx_mut().trace = Some(trace);
        }
        let span = tracing::debug_span!(
            "call",
            method = call.method().as_str(),
            tool = call.tool().map(|tool| tool.name),
            trace = call.cx().trace.as_deref(),
            key = %call.cx().key,
        );
        let entered = span.enter();
        let future = self.inner.call(call);
        drop(entered);
        future.instrument(span)
    }
}
