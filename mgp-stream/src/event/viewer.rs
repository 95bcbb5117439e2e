//! The context of a subscriber, from which access to each event is decided.

use std::sync::Arc;

use mgp_types::service::{Context, CredentialGrant, ScopeKind};

/// Returns the part of a call's context from which access is decided.
///
/// On a connection, the grant ends with the credentials of the call. Elsewhere it does not, because events must not be
/// lost until the client has renewed its token; events are then sent only as long as the credentials of the stream are
/// valid.
pub(super) fn viewer(cx: &Context) -> Context {
    let mut viewer = Context::new(cx.peer.clone(), cx.scope.clone(), cx.principal.clone());
    viewer.caller = Arc::clone(&cx.caller);
    if let Some(grant) = cx.extensions.get::<CredentialGrant>() {
        let grant = if cx.scope.kind() == ScopeKind::Connection {
            grant.clone()
        } else {
            CredentialGrant::new(grant.permissions().iter().cloned(), || true)
        };
        viewer.extensions.insert(grant);
    }
    viewer
}

/// Returns whether the API key of a call has expired or was revoked. A key that replaces it may permit less, so the
/// client must continue the subscription with that key.
pub(super) fn has_ended_key(cx: &Context) -> bool {
    let grant = cx.extensions.get::<CredentialGrant>();
    grant.is_some_and(|grant| grant.key().is_some() && !grant.is_valid())
}
