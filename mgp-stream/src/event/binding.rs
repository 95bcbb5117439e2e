//! The connection or session with which a subscription ends; another one takes its place when the subscription is
//! continued there.

use mgp_types::service::{EndGuard, Scope, ScopeId, ScopeKind};
use mgp_types::sync::Mutex;

/// The connection or session with which a subscription ends; none if the subscription is durable or its request belongs
/// to neither.
pub(super) struct ScopeBinding(Mutex<BindingState>);

struct BindingState {
    scope: Option<ScopeId>,
    /// The registration of the function that runs at the end of the scope.
    guard: Option<EndGuard>,
}

impl ScopeBinding {
    pub(super) fn new(scope: Option<&Scope>) -> Self {
        Self(Mutex::new(BindingState { scope: scope.map(Scope::id), guard: None }))
    }

    pub(super) fn scope_id(&self) -> Option<ScopeId> {
        self.0.lock().scope
    }

    /// Replaces the scope; only the table does so, because it counts the subscriptions of each scope.
    pub(super) fn set_scope(&self, scope: ScopeId) {
        self.0.lock().scope = Some(scope);
    }

    /// Stores the registration for a scope, unless another scope has replaced this one.
    pub(super) fn set_guard(&self, scope: ScopeId, guard: EndGuard) {
        let mut state = self.0.lock();
        // The registration that is not needed is dropped after the lock, because its removal takes the scope's lock.
        let _unneeded =
            if state.scope == Some(scope) { state.guard.replace(guard) } else { Some(guard) };
        drop(state);
    }

    /// Removes the registration of a subscription that has ended.
    pub(super) fn release(&self) {
        let guard = self.0.lock().guard.take();
        drop(guard);
    }
}

/// Returns whether a scope is a connection or session, and not that of a single request.
pub(super) fn is_lasting(scope: &Scope) -> bool {
    matches!(scope.kind(), ScopeKind::Connection | ScopeKind::Session)
}
