//! Scopes: connections, sessions, handles and requests. A scope owns the state that is kept between its calls.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::sync::Mutex;

/// A connection, session, handle or request, as the owner of state that layers keep between its calls. The state is
/// dropped when the scope ends.
///
/// ```
/// use mgp_types::service::{Scope, ScopeKind};
///
/// #[derive(Default)]
/// struct Seen(std::sync::atomic::AtomicUsize);
///
/// let scope = Scope::new(ScopeKind::Connection);
/// scope.state::<Seen>().0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
/// assert_eq!(scope.state::<Seen>().0.load(std::sync::atomic::Ordering::Relaxed), 1);
/// ```
#[derive(Clone)]
pub struct Scope(Arc<ScopeData>);

/// The kind of a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ScopeKind {
    /// A connection over stdio or in memory.
    Connection,
    /// A legacy HTTP session.
    Session,
    /// A handle: a text that a modern client sends with several requests, so that they share state.
    Handle,
    /// A single HTTP request of a modern client.
    Request,
}

/// The id of a scope, unique in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScopeId(u64);

struct ScopeData {
    id: ScopeId,
    kind: ScopeKind,
    state: Mutex<ScopeState>,
}

#[derive(Default)]
struct ScopeState {
    ended: bool,
    next_hook: u64,
    /// The values of the scope, each found by its type. There are only a few, so a linear search is faster than a hash
    /// map.
    values: Vec<(TypeId, Arc<dyn Any + Send + Sync>)>,
    hooks: HashMap<u64, Box<dyn FnOnce() + Send>>,
}

impl ScopeState {
    fn value(&self, id: TypeId) -> Option<Arc<dyn Any + Send + Sync>> {
        self.values.iter().find(|(known, _)| *known == id).map(|(_, value)| Arc::clone(value))
    }
}

impl Scope {
    /// Creates a scope with a new id and no values.
    #[must_use]
    pub fn new(kind: ScopeKind) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = ScopeId(NEXT.fetch_add(1, Ordering::Relaxed));
        Self(Arc::new(ScopeData { id, kind, state: Mutex::default() }))
    }

    /// Returns the id of the scope.
    #[must_use]
    pub fn id(&self) -> ScopeId {
        self.0.id
    }

    /// Returns the kind of the scope.
    #[must_use]
    pub fn kind(&self) -> ScopeKind {
        self.0.kind
    }

    /// Returns whether the calls of two scopes may come from one client: the scopes are the same, or neither of them is
    /// a connection or session, so that nothing distinguishes their clients.
    #[must_use]
    pub fn may_be_one_client(&self, other: &Self) -> bool {
        let stays =
            |scope: &Self| matches!(scope.kind(), ScopeKind::Connection | ScopeKind::Session);
        self.id() == other.id() || !stays(self) && !stays(other)
    }

    /// Returns the scope's value of type `T`; creates it with `T::default()` on first use. A value that is created
    /// after the scope has ended is dropped together with the scope itself.
    #[must_use]
    pub fn state<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let id = TypeId::of::<T>();
        let known = self.0.state.lock().value(id);
        let value = known.unwrap_or_else(|| {
            // Create the value before the lock is acquired, because `T::default` may use the scope.
            let created: Arc<dyn Any + Send + Sync> = Arc::new(T::default());
            let mut state = self.0.state.lock();
            if let Some(first) = state.value(id) {
                return first;
            }
            state.values.push((id, Arc::clone(&created)));
            created
        });
        // The downcast cannot fail, because the value was found by its type. The default value only avoids a panic.
        value.downcast().unwrap_or_default()
    }

    /// Registers a function that runs when the scope ends, or immediately if it has ended already. Dropping the
    /// returned guard removes the function.
    #[must_use = "dropping the guard removes the function"]
    pub fn on_end(&self, hook: impl FnOnce() + Send + 'static) -> EndGuard {
        let mut state = self.0.state.lock();
        if state.ended {
            drop(state);
            hook();
            return EndGuard { scope: Weak::new(), hook: 0 };
        }
        state.next_hook += 1;
        let number = state.next_hook;
        state.hooks.insert(number, Box::new(hook));
        EndGuard { scope: Arc::downgrade(&self.0), hook: number }
    }

    /// Returns whether the scope has ended.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.0.state.lock().ended
    }

    /// Ends the scope: runs the registered functions and drops the state.
    pub fn end(&self) {
        let (hooks, values) = {
            let mut state = self.0.state.lock();
            state.ended = true;
            (std::mem::take(&mut state.hooks), std::mem::take(&mut state.values))
        };
        for hook in hooks.into_values() {
            hook();
        }
        drop(values);
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.0.kind, self.0.id.0)
    }
}

/// A guard for a function that was registered with [`Scope::on_end`]; dropping the guard removes the function.
#[derive(Debug)]
pub struct EndGuard {
    scope: Weak<ScopeData>,
    hook: u64,
}

crate::opaque_debug!(ScopeData { id, kind });

impl EndGuard {
    /// Consumes the guard without removing the function, which stays registered until the scope ends.
    pub fn keep(mut self) {
        self.scope = Weak::new();
    }
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        if let Some(data) = self.scope.upgrade() {
            let removed = data.state.lock().hooks.remove(&self.hook);
            // Drop the function only after the lock is released, because values that it owns may use the scope.
            drop(removed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stateless_requests_may_come_from_one_client_but_two_sessions_do_not() {
        let [request, session] = [ScopeKind::Request, ScopeKind::Session].map(Scope::new);
        assert!(request.may_be_one_client(&Scope::new(ScopeKind::Request)));
        assert!(session.may_be_one_client(&session.clone()));
        assert!(!session.may_be_one_client(&Scope::new(ScopeKind::Session)));
        assert!(!session.may_be_one_client(&request));
    }

    #[test]
    fn hooks_run_once_and_late_ones_at_once() {
        let runs = Arc::new(AtomicU64::new(0));
        let hook = || {
            let runs = Arc::clone(&runs);
            move || {
                runs.fetch_add(1, Ordering::Relaxed);
            }
        };
        let scope = Scope::new(ScopeKind::Session);
        scope.on_end(hook()).keep();
        drop(scope.on_end(hook()));
        scope.end();
        scope.end();
        assert_eq!(runs.load(Ordering::Relaxed), 1);
        scope.on_end(hook()).keep();
        assert_eq!(runs.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_default_value_may_use_its_scope() {
        thread_local!(static SCOPE: Scope = Scope::new(ScopeKind::Session));
        struct Outer(Arc<u8>);
        impl Default for Outer {
            fn default() -> Self {
                Self(SCOPE.with(Scope::state))
            }
        }
        assert_eq!(*SCOPE.with(Scope::state::<Outer>).0, 0);
    }

    #[test]
    fn a_removed_hook_may_own_a_guard_of_its_scope() {
        let scope = Scope::new(ScopeKind::Session);
        let inner = scope.on_end(|| ());
        let outer = scope.on_end(move || drop(inner));
        // If the function were dropped while the lock is held, this would wait for the lock forever.
        drop(outer);
        assert!(scope.0.state.lock().hooks.is_empty());
    }
}
