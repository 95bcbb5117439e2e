//! THE outbound stack to one server: one layer a line, outermost first, each with its reason.
//!
//! Applies to: outbound.

use std::time::Duration;

use mgp_lifecycle::{StampLayer, TimeoutLayer};
use mgp_security::TraceLayer;
use mgp_stream::CollectLayer;
use mgp_types::service::{Peer, Stack};
use tower::ServiceBuilder;
use tower_layer::Layer;

/// Puts the layers over a peer; `gates` is what a user adds: audit, access, permission, confirmation, validation.
pub(crate) fn outbound<L>(peer: Peer, stamp: StampLayer, timeout: Duration, gates: L) -> Stack
where
    L: Layer<Stack>,
    L::Service: mgp_types::service::MgpService,
{
    let inner = ServiceBuilder::new()
        // Time that gates take, to ask a person for example, does not count as the server's.
        .layer(TimeoutLayer::new(timeout))
        // It asks for chunks on behalf of whoever takes them.
        .layer(CollectLayer::new())
        // The other end.
        .service(peer);
    let service = ServiceBuilder::new()
        // The span and its trace id come before anyone logs.
        .layer(TraceLayer::new())
        // Gates need to know whom a call goes to; the callee needs to know what we speak.
        .layer(stamp)
        // Every attempt passes all of them.
        .service(gates.layer(Stack::new(inner)));
    Stack::new(service)
}
