//! THE outbound stack to one server: one layer a line, outermost first, each with its reason.
//!
//! Applies to: outbound.

use std::sync::Arc;

use mgp_lifecycle::{RetryLayer, Session, StampLayer};
use mgp_security::TraceLayer;
use mgp_stream::CollectLayer;
use mgp_types::service::{MgpService, Peer, Scope, ScopeId, Stack};
use tower::ServiceBuilder;
use tower_layer::Layer as _;

use super::{Lively, MirrorLayer, PatienceLayer};

/// The way to one server, as far as it belongs to one connection; gates stand before it.
pub(crate) struct Road {
    pub(crate) peer: Peer,
    pub(crate) session: Arc<Session>,
    /// That of the connection.
    pub(crate) scope: ScopeId,
    /// Without it no call is made again.
    retry: Option<RetryLayer>,
    stamp: StampLayer,
    mirror: MirrorLayer,
    inner: Stack,
}

impl Road {
    pub(crate) fn new(
        peer: Lively,
        scope: &Scope,
        retry: Option<RetryLayer>,
        stamp: StampLayer,
        mirror: MirrorLayer,
        patience: PatienceLayer,
    ) -> Self {
        let (end, session) = (peer.peer().clone(), scope.state::<Session>());
        let scope = scope.id();
        let inner = ServiceBuilder::new()
            // Time that gates take, to ask a person for example, does not count as the server's.
            .layer(patience)
            // It asks for chunks on behalf of whoever takes them.
            .layer(CollectLayer::new())
            // The other end.
            .service(peer);
        Self { peer: end, session, scope, retry, stamp, mirror, inner: Stack::new(inner) }
    }

    /// Puts gates before it that belong to this connection: audit, access, permission, confirmation, validation.
    pub(crate) fn through(self, gates: impl FnOnce(Stack) -> Stack) -> Stack {
        let service = ServiceBuilder::new()
            // Gates need to know whom a call goes to; the callee needs to know what we speak.
            .layer(self.stamp)
            // Every attempt passes all of them; they may change arguments, so headers are made behind them.
            .service(gates(Stack::new(self.mirror.layer(self.inner))));
        spanned(self.retry, service)
    }

    /// The way behind gates that outlive the connection: what is said of the sender fits whoever takes the call.
    pub(crate) fn behind(self) -> Stack {
        let service = ServiceBuilder::new()
            // A call that is made again with other headers is stamped again.
            .layer(self.mirror)
            .layer(self.stamp)
            // Each attempt has its own time.
            .service(self.inner);
        Stack::new(service)
    }
}

/// Puts what stands outside all gates: a span, and in it all attempts.
pub(crate) fn spanned(retry: Option<RetryLayer>, service: impl MgpService) -> Stack {
    // The span and its trace id come before anyone logs.
    let span = ServiceBuilder::new().layer(TraceLayer::new());
    match retry {
        // Each attempt is stamped anew, for what it says of permissions and of its span may have changed.
        Some(retry) => Stack::new(span.layer(retry).service(service)),
        None => Stack::new(span.service(service)),
    }
}
