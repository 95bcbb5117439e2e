//! The context of a subscriber, for checking the access to each event.

use std::sync::Arc;

use mgp_types::service::{Context, CredentialGrant, ScopeKind};

/// Returns the part of a call's context that is needed to check the access to events later.
///
/// For a connection, the copy contains the credentials of the call: when they expire, the subscriber loses access to
/// further events. For any other scope, the permissions are copied without the expiry, so that the hub keeps the events
/// that are published before the client has renewed its token. They are sent only on a stream, which has credentials of
/// its own.
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

/// Returns whether the API key of a call has expired or was revoked. A new key may permit less, so the client must
/// continue the subscription with the new key.
pub(super) fn has_ended_key(cx: &Context) -> bool {
    let grant = cx.extensions.get::<CredentialGrant>();
    grant.is_some_and(|grant| grant.key().is_some() && !grant.is_valid())
}
