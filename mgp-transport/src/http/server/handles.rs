//! The scopes of requests that stand alone.
//!
//! A client that gives its requests a handle can speak of one in another, to cancel it for example; two clients of one
//! principal cannot, whatever ids they give their requests.
//!
//! Applies to: inbound.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mgp_types::service::{Principal, Scope, ScopeKind};

/// How long a handle may be; a longer one names nothing.
const LONGEST: usize = 128;

/// The scopes of the handles that have requests running.
#[derive(Debug, Default)]
pub(super) struct Handles(Mutex<Table>);

type Table = HashMap<Key, Handle, ahash::RandomState>;

/// A handle is its principal's own.
type Key = (Principal, Box<str>);

#[derive(Debug)]
struct Handle {
    scope: Scope,
    requests: usize,
}

impl Handles {
    /// Enters a request of a principal, under the handle it gives.
    pub(super) fn enter(self: &Arc<Self>, principal: Principal, handle: Option<&str>) -> Within {
        let Some(handle) = handle.filter(|handle| handle.len() <= LONGEST) else {
            let scope = Scope::new(ScopeKind::Request);
            return Within { scope, principal, shared: None };
        };
        let key = (principal.clone(), handle.into());
        let mut handles = self.handles();
        let entry = handles
            .entry(key.clone())
            .or_insert_with(|| Handle { scope: Scope::new(ScopeKind::Handle), requests: 0 });
        entry.requests += 1;
        let scope = entry.scope.clone();
        drop(handles);
        Within { scope, principal, shared: Some((Arc::clone(self), key)) }
    }

    fn handles(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request within its scope.
#[derive(Debug)]
pub(super) struct Within {
    pub(super) scope: Scope,
    pub(super) principal: Principal,
    shared: Option<(Arc<Handles>, Key)>,
}

impl Drop for Within {
    fn drop(&mut self) {
        let Some((handles, key)) = self.shared.take() else { return self.scope.end() };
        let mut handles = handles.handles();
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
        let handles = Arc::new(Handles::default());
        let ann = Principal::new("acme", "ann");
        let id = |principal: &Principal, handle| {
            let within = handles.enter(principal.clone(), handle);
            (within.scope.id(), within)
        };
        let one = id(&ann, Some("h"));
        assert_eq!(id(&ann, Some("h")).0, one.0);
        let long = "h".repeat(LONGEST + 1);
        for (principal, handle) in [
            (&ann, None),
            (&ann, Some("i")),
            (&ann, Some(&*long)),
            (&ann.agent("a"), Some("h")),
            (&Principal::new("evil", "ann"), Some("h")),
        ] {
            assert_ne!(id(principal, handle).0, one.0, "{principal:?} {handle:?}");
        }
        assert_eq!(handles.handles().len(), 1);
        let scope = one.1.scope.clone();
        drop(one);
        assert!(scope.is_ended() && handles.handles().is_empty());
        let alone = handles.enter(ann, None);
        let scope = alone.scope.clone();
        drop(alone);
        assert!(scope.is_ended());
    }
}
