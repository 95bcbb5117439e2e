//! The context of a subscriber, from which access to each event is decided.

use std::sync::Arc;

use mgp_types::service::{Context, CredentialGrant, ScopeKind};

/// Returns the part of a call's context from which access is decided.
///
/// Only on a connection, the grant ends with the credentials of the call: elsewhere the client renews its token, the
/// events until then must not be lost, and what is sent ends with the credentials of the stream.
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
