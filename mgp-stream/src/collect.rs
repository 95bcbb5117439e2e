//! Requests streaming for outbound calls whose caller accepts chunks (MGP §12.3).
//!
//! Applies to: outbound.

use std::sync::atomic::{AtomicBool, Ordering};

use mgp_types::mgp::{CallExtension, Extension};
use mgp_types::service::{Call, MgpService, OutletItemKind, Reply};
use mgp_types::{Payload, RpcError};
use tower_layer::Layer;
use tower_service::Service;

/// Sets `_mgp.stream` on a tool call whose outlet takes chunks, if the callee negotiated streaming.
///
/// The chunks arrive through [`RouteLayer`](crate::RouteLayer) on the inbound stack of the same connection.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct CollectLayer(());

impl CollectLayer {
    /// Creates the layer.
    pub const fn new() -> Self {
        Self(())
    }
}

impl<S> Layer<S> for CollectLayer {
    type Service = Collect<S>;

    fn layer(&self, inner: S) -> Collect<S> {
        Collect { inner }
    }
}

/// Service of [`CollectLayer`].
#[derive(Clone)]
pub struct Collect<S> {
    inner: S,
}

mgp_types::opaque_debug!(Collect<S>);

/// Remembers whether progress of a call arrived in MCP's form, which then is the only one that counts:
/// an MGP peer sends both forms, and MCP's has the real units.
#[derive(Debug, Default)]
pub(crate) struct ProgressForm(AtomicBool);

impl ProgressForm {
    pub(crate) fn note_mcp(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_mcp(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl<S: MgpService> Service<Call> for Collect<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = S::Future;

    mgp_types::always_ready!();

    fn call(&mut self, mut call: Call) -> Self::Future {
        if call.cx().outlet.wants(OutletItemKind::Progress) {
            call.cx_mut().extensions.insert(ProgressForm::default());
        }
        let cx = call.cx();
        if call.tool().is_some()
            && cx.callee.has(Extension::Streaming)
            && cx.outlet.wants(OutletItemKind::Chunk)
        {
            let mut mgp = CallExtension::new();
            mgp.stream = Some(true);
            // Writing this record cannot fail; without it the call merely does not stream.
            call.hop_mut().mgp = Payload::of(&mgp).ok();
        }
        self.inner.call(call)
    }
}
