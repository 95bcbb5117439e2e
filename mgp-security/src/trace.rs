//! A tracing span around each call, with its trace id (MGP §6.5).
//!
//! Applies to: inbound and outbound.

use mgp_types::RpcError;
use mgp_types::service::{Call, CallerTrace, MgpService, Reply};
use tower_layer::Layer;
use tower_service::Service;
use tracing::Instrument;
use tracing::instrument::Instrumented;

/// Layer that opens a `call` span around each call, with method, tool and trace id, and stores the trace context that
/// the caller sent ([`CallerTrace`]) in the context of the call.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct TraceLayer(());

impl TraceLayer {
    /// Creates the layer, which has no settings.
    pub const fn new() -> Self {
        Self(())
    }
}

impl<S> Layer<S> for TraceLayer {
    type Service = TraceService<S>;

    fn layer(&self, inner: S) -> TraceService<S> {
        TraceService { inner }
    }
}

/// Service of [`TraceLayer`].
#[derive(Clone)]
pub struct TraceService<S> {
    inner: S,
}

mgp_types::opaque_debug!(TraceService<S>);

impl<S: MgpService> Service<Call> for TraceService<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Instrumented<S::Future>;

    mgp_types::always_ready!();

    fn call(&mut self, mut call: Call) -> Self::Future {
        // A trace id in the params replaces the trace id in the context, which a forwarded call has from the original
        // call.
        if let Some(trace) = call.params().trace_id() {
            call.cx_mut().trace = Some(trace);
        }
        // Read the trace context here, because the params of a call can be replaced before the call is sent on.
        if let Some(received) = CallerTrace::of(call.params()) {
            call.cx_mut().extensions.insert(received);
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
