//! The way past the gates for calls that none of them would hold up.
//!
//! Applies to: both.

use std::fmt;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use mgp_types::RpcError;
use mgp_types::service::{Call, Either, MgpService, Reply, ServerId, Waited};
use tower_layer::Layer;
use tower_service::Service;

use crate::definition::{Definitions, Whose};

/// Puts gates before a service, and leads calls past them that need nothing: no definition to check, no permission, no
/// validator, no confirmation.
///
/// Each gate would say so by itself; asked one by one they cost as much as everything else that is decided of a call.
#[derive(Clone)]
#[must_use]
pub(super) struct BypassLayer<L> {
    pub(super) gates: L,
    pub(super) definitions: Definitions,
    pub(super) server: ServerId,
    pub(super) tools: Whose,
}

impl<S: Clone, L: Layer<S>> Layer<S> for BypassLayer<L> {
    type Service = Bypass<S, L::Service>;

    fn layer(&self, inner: S) -> Self::Service {
        let Self { gates, definitions, server, tools } = self;
        let gates = gates.layer(inner.clone());
        let (definitions, server, tools) = (definitions.clone(), server.clone(), *tools);
        Bypass { inner, gated: Arc::new(Gates { gates, definitions, server, tools }) }
    }
}

/// A service before which gates stand that are asked where they have something to say.
#[derive(Clone)]
pub struct Bypass<S, G> {
    inner: S,
    gated: Arc<Gates<G>>,
}

struct Gates<G> {
    gates: G,
    definitions: Definitions,
    server: ServerId,
    tools: Whose,
}

impl<G> Gates<G> {
    /// Whether no gate would hold up a call; `false` where that is not plain to see.
    fn let_pass(&self, call: &Call) -> bool {
        let Some(tool) = call.tool() else { return false };
        let cx = call.cx();
        let server = cx.server.as_ref().unwrap_or(&self.server);
        // What waited further out is decided anew by the innermost gate.
        self.definitions.is_plain(server, tool.name, self.tools) && !Waited::is(cx)
    }
}

impl<S, G> fmt::Debug for Bypass<S, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bypass")
    }
}

impl<S: MgpService, G: MgpService> Service<Call> for Bypass<S, G> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<S::Future, G::Future>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        if self.gated.let_pass(&call) {
            return Either::Left { future: self.inner.call(call) };
        }
        Either::Right { future: self.gated.gates.clone().call(call) }
    }
}
