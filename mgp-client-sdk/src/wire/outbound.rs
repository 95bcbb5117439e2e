//! The outbound stack of a connection: one layer per line, outermost first, each with its reason.

use std::sync::{Arc, OnceLock};

use mgp_lifecycle::{HandshakeState, RequestMetaLayer, RetryLayer};
use mgp_security::TraceLayer;
use mgp_stream::{CollectLayer, ResumeLayer};
use mgp_types::service::{MgpService, Peer, Scope, ScopeId, Stack};
use tower::ServiceBuilder;
use tower_layer::Layer as _;

use crate::config::ClientConfig;

use super::{HeaderMirrorLayer, LivenessPeer, RequestTimeoutLayer};

/// The part of the outbound stack that belongs to one connection; gates, i.e. the layers that check and record calls,
/// are added in front of it or between its layers.
pub(crate) struct OutboundStack {
    pub(crate) peer: Peer,
    pub(crate) session: Arc<HandshakeState>,
    pub(crate) scope: ScopeId,
    repeats: Repeats,
    request_meta: RequestMetaLayer,
    /// The layer that adds `Mcp-Param-*` headers; `None` if the transport has no headers.
    mirror: Option<HeaderMirrorLayer>,
    inner: Stack,
}

/// Two further stacks of a connection, which a gateway uses.
#[derive(Clone, Debug)]
pub(crate) struct GatewayStacks {
    /// The stack for the gateway's own requests. On a supervised connection it has no gates.
    pub(crate) ungated: Stack,
    /// The stack for forwarded calls. It opens no trace span, because the gateway's own stack has already opened a
    /// span.
    pub(crate) forwarding: Stack,
}

impl GatewayStacks {
    /// Returns the gateway's stacks of a supervised connection. For any other connection, both stacks are the given
    /// one.
    pub(crate) fn of(supervised: &OnceLock<Self>, stack: &Stack) -> Self {
        let one = || Self { ungated: stack.clone(), forwarding: stack.clone() };
        supervised.get().cloned().unwrap_or_else(one)
    }
}

impl OutboundStack {
    pub(crate) fn new(
        peer: LivenessPeer,
        scope: &Scope,
        repeats: Repeats,
        request_meta: RequestMetaLayer,
        mirror: Option<HeaderMirrorLayer>,
        time_limit: RequestTimeoutLayer,
    ) -> Self {
        let (own_peer, session) = (peer.peer().clone(), scope.state::<HandshakeState>());
        let scope = scope.id();
        let inner = ServiceBuilder::new()
            // The time limit is inside the gates, so that it counts only the time of the server, and not e.g. the time
            // for asking a person.
            .layer(time_limit)
            // This layer requests missing chunks on behalf of the caller.
            .layer(CollectLayer::new())
            // The innermost service sends the calls to the peer.
            .service(peer);
        let inner = Stack::new(inner);
        Self { peer: own_peer, session, scope, repeats, request_meta, mirror, inner }
    }

    /// Builds the stack with gates that belong to this connection: audit, access, permission, confirmation, validation.
    pub(crate) fn with_gates(self, gates: impl FnOnce(Stack) -> Stack) -> Stack {
        let service = ServiceBuilder::new()
            // This layer adds the server's properties, which the gates need, and this client's metadata, which the
            // server needs.
            .layer(self.request_meta)
            // Headers are computed inside the gates, because gates may change arguments.
            .service(gates(mirrored(self.mirror, self.inner)));
        spanned(self.repeats, service)
    }

    /// Builds the part of the stack below the gates that are kept across connections.
    pub(crate) fn behind_gates(self) -> Stack {
        let service = ServiceBuilder::new()
            .layer(self.request_meta)
            // The time-out is inside the retries, so that each attempt has its own time-out.
            .service(self.inner);
        // The layer of the headers is outside the metadata layer, because a call that is repeated with other headers
        // needs new metadata.
        mirrored(self.mirror, Stack::new(service))
    }
}

/// Adds the headers of tool calls, if the transport has headers.
fn mirrored(mirror: Option<HeaderMirrorLayer>, stack: Stack) -> Stack {
    match mirror {
        Some(mirror) => Stack::new(mirror.layer(stack)),
        None => stack,
    }
}

/// The layers that send a call more than once.
#[derive(Clone, Default)]
pub(crate) struct Repeats {
    /// The layer that retries failed calls; `None` if they are not retried.
    pub(crate) retry: Option<RetryLayer>,
    /// The layer that resumes broken streams; `None` if they are not resumed.
    pub(crate) resume: Option<ResumeLayer>,
}

impl Repeats {
    pub(crate) fn take(config: &mut ClientConfig) -> Self {
        Self { retry: config.retry.take(), resume: config.resume }
    }

    /// Returns whether calls may outlive their connection.
    pub(crate) fn is_some(&self) -> bool {
        self.retry.is_some() || self.resume.is_some()
    }
}

/// Adds the layers around all gates: the trace span and, inside it, the layers that repeat calls.
pub(crate) fn spanned(repeats: Repeats, service: impl MgpService) -> Stack {
    // The trace span is created first, because log messages need its trace id.
    let span = ServiceBuilder::new().layer(TraceLayer::new());
    match (repeats.resume, repeats.retry) {
        (None, None) => Stack::new(span.service(service)),
        // Each attempt receives new metadata, because permissions and the span may have changed.
        (None, Some(retry)) => Stack::new(span.layer(retry).service(service)),
        // The layer that resumes streams is outside the retry layer, because retries do not repeat a call that has
        // delivered chunks.
        (Some(resume), retry) => {
            Stack::new(span.layer(resume).option_layer(retry).service(service))
        }
    }
}
