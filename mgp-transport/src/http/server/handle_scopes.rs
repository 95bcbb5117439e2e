//! The scopes of requests that belong to no session (modern era).
//!
//! A client can send a handle, an id that it chose, with its requests. All requests with the same handle share a scope,
//! so that one request can refer to another by its request id, e.g. to cancel it. Clients of the same principal that
//! use different handles cannot reach each other's requests, even if the request ids are equal.

use std::collections::HashMap;
use std::sync::Arc;

use mgp_types::service::{Principal, Scope, ScopeKind};
use mgp_types::sync::Mutex;

/// The maximum length of a handle; a longer handle is ignored.
const MAX_HANDLE_LENGTH: usize = 128;

/// The scopes of the handles that have running requests.
#[derive(Debug, Default)]
pub(super) struct HandleScopes(Mutex<Table>);

type Table = HashMap<Key, HandleScope, ahash::RandomState>;

/// The key of a scope: a handle is valid for one principal only.
type Key = (Principal, Box<str>);

#[derive(Debug)]
struct HandleScope {
    scope: Scope,
    requests: usize,
}

impl HandleScopes {
    /// Adds a request to the scope of its handle; a request without a handle, or with a handle that is too long, gets
    /// its own scope.
    pub(super) fn enter(
        self: &Arc<Self>,
        principal: Principal,
        handle: Option<&str>,
    ) -> ScopedRequest {
        let Some(handle) = handle.filter(|handle| handle.len() <= MAX_HANDLE_LENGTH) else {
            let scope = Scope::new(ScopeKind::Request);
            return ScopedRequest { scope, principal, entry: None };
        };
        let key = (principal.clone(), handle.into());
        let mut handles = self.0.lock();
        let entry = handles
            .entry(key.clone())
            .or_insert_with(|| HandleScope { scope: Scope::new(ScopeKind::Handle), requests: 0 });
        entry.requests += 1;
        let scope = entry.scope.clone();
        drop(handles);
        ScopedRequest { scope, principal, entry: Some((Arc::clone(self), key)) }
    }
}

/// A running request and its scope; the scope ends with its last request.
#[derive(Debug)]
pub(super) struct ScopedRequest {
    pub(super) scope: Scope,
    pub(super) principal: Principal,
    entry: Option<(Arc<HandleScopes>, Key)>,
}

impl Drop for ScopedRequest {
    fn drop(&mut self) {
        let Some((handles, key)) = self.entry.take() else { return self.scope.end() };
        let mut handles = handles.0.lock();
        let Some(handle) = handles.get_mut(&key) else { return };
        handle.requests -= 1;
        if handle.requests == 0 {
            handles.remove(&key);
            drop(handles);
            self.scope.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_share_a_scope_only_under_one_handle_of_one_principal() {
        let handles = Arc::new(HandleScopes::default());
        let ann = Principal::new("acme", "ann");
        let id = |principal: &Principal, handle| {
            let within = handles.enter(principal.clone(), handle);
            (within.scope.id(), within)
        };
        let one = id(&ann, Some("h"));
        assert_eq!(id(&ann, Some("h")).0, one.0);
        let long = "h".repeat(MAX_HANDLE_LENGTH + 1);
        for (principal, handle) in [
            (&ann, None),
            (&ann, Some("i")),
            (&ann, Some(&*long)),
            (&ann.agent("a"), Some("h")),
            (&Principal::new("evil", "ann"), Some("h")),
        ] {
            assert_ne!(id(principal, handle).0, one.0, "{principal:?} {handle:?}");
        }
        assert_eq!(handles.0.lock().len(), 1);
        let scope = one.1.scope.clone();
        drop(one);
        assert!(scope.is_ended() && handles.0.lock().is_empty());
        let alone = handles.enter(ann, None);
        let scope = alone.scope.clone();
        drop(alone);
        assert!(scope.is_ended());
    }
}
