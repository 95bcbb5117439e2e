//! THE outbound stack to one server: one layer a line, outermost first, each with its reason.
//!
//! Applies to: outbound.

use std::sync::Arc;

use mgp_lifecycle::{Session, StampLayer};
use mgp_security::TraceLayer;
use mgp_stream::CollectLayer;
use mgp_types::service::{Peer, Stack};
use tower::ServiceBuilder;

use super::{Lively, MirrorLayer, PatienceLayer};

/// The way to one server, as far as it belongs to one connection; gates stand before it.
pub(crate) struct Road {
    pub(crate) peer: Peer,
    pub(crate) session: Arc<Session>,
    stamp: StampLayer,
    inner: Stack,
}

impl Road {
    pub(crate) fn new(
        peer: Lively,
        session: Arc<Session>,
        stamp: StampLayer,
        mirror: MirrorLayer,
        patience: PatienceLayer,
    ) -> Self {
        let end = peer.peer().clone();
        let inner = ServiceBuilder::new()
            // Gates may change arguments, and each of its attempts has its own time.
            .layer(mirror)
            // Time that gates take, to ask a person for example, does not count as the server's.
            .layer(patience)
            // It asks for chunks on behalf of whoever takes them.
            .layer(CollectLayer::new())
            // The other end.
            .service(peer);
        Self { peer: end, session, stamp, inner: Stack::new(inner) }
    }

    /// Puts gates before it that belong to this connection: audit, access, permission, confirmation, validation.
    pub(crate) fn through(self, gates: impl FnOnce(Stack) -> Stack) -> Stack {
        let service = ServiceBuilder::new()
            // The span and its trace id come before anyone logs.
            .layer(TraceLayer::new())
            // Gates need to know whom a call goes to; the callee needs to know what we speak.
            .layer(self.stamp)
            // Every attempt passes all of them.
            .service(gates(self.inner));
        Stack::new(service)
    }

    /// The way behind gates that outlive the connection: what is said of the sender fits whoever takes the call.
    pub(crate) fn behind(self) -> Stack {
        Stack::new(ServiceBuilder::new().layer(self.stamp).service(self.inner))
    }
}
