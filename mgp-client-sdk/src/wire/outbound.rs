//! THE outbound stack to one server: one layer a line, outermost first, each with its reason.
//!
//! Applies to: outbound.

use mgp_lifecycle::{RetryLayer, StampLayer};
use mgp_security::TraceLayer;
use mgp_stream::CollectLayer;
use mgp_types::service::Stack;
use tower::ServiceBuilder;

use super::{Lively, MirrorLayer, PatienceLayer};

/// Puts the layers over a peer; `gates` is what a user adds: audit, access, permission, confirmation, validation.
///
/// Without `retry` no call is made again.
pub(crate) fn outbound(
    peer: Lively,
    retry: Option<RetryLayer>,
    stamp: StampLayer,
    mirror: MirrorLayer,
    patience: PatienceLayer,
    gates: impl FnOnce(Stack) -> Stack,
) -> Stack {
    let inner = ServiceBuilder::new()
        // Gates may change arguments, and each of its attempts has its own time.
        .layer(mirror)
        // Time that gates take, to ask a person for example, does not count as the server's.
        .layer(patience)
        // It asks for chunks on behalf of whoever takes them.
        .layer(CollectLayer::new())
        // The other end.
        .service(peer);
    let service = ServiceBuilder::new()
        // Gates need to know whom a call goes to; the callee needs to know what we speak.
        .layer(stamp)
        // Every attempt passes all of them.
        .service(gates(Stack::new(inner)));
    // The span and its trace id come before anyone logs, and all attempts are in it.
    let span = ServiceBuilder::new().layer(TraceLayer::new());
    match retry {
        // Each attempt is stamped anew, for what it says of permissions and of its span may have changed.
        Some(retry) => Stack::new(span.layer(retry).service(service)),
        None => Stack::new(span.service(service)),
    }
}
