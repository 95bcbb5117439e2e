//! The connection or session with which a subscription ends. If the client continues the subscription on another
//! connection or session, the subscription ends with that connection or session instead.

use mgp_types::service::{EndGuard, Scope, ScopeId, ScopeKind};
use mgp_types::sync::Mutex;

/// The connection or session with which a subscription ends. It is empty if the subscription is durable, or if it was
/// requested outside of a connection or session.
pub(super) struct ScopeBinding(Mutex<BindingState>);

struct BindingState {
    scope: Option<ScopeId>,
    /// The registration of the function that ends the subscription when the scope ends; dropping it removes the
    /// function.
    guard: Option<EndGuard>,
}

impl ScopeBinding {
    pub(super) fn new(scope: Option<&Scope>) -> Self {
        Self(Mutex::new(BindingState { scope: scope.map(Scope::id), guard: None }))
    }

    pub(super) fn scope_id(&self) -> Option<ScopeId> {
        self.0.lock().scope
    }

    /// Replaces the scope with which the subscription ends. Only the table calls this, because it counts the
    /// subscriptions of each scope.
    pub(super) fn set_scope(&self, scope: ScopeId) {
        self.0.lock().scope = Some(scope);
    }

    /// Stores the registration `guard` of the function that runs at the end of `scope`. If another scope has replaced
    /// that scope meanwhile, removes the registration instead.
    pub(super) fn set_guard(&self, scope: ScopeId, guard: EndGuard) {
        let mut state = self.0.lock();
        // Drop the registration that is not needed only after the lock was released, because dropping it takes the lock
        // of the scope.
        let _unneeded =
            if state.scope == Some(scope) { state.guard.replace(guard) } else { Some(guard) };
        drop(state);
    }

    /// Removes the registration at the scope, because the subscription has ended.
    pub(super) fn release(&self) {
        let guard = self.0.lock().guard.take();
        drop(guard);
    }
}

/// Returns whether a scope is a connection or session. Any other scope, e.g. that of a single request, does not end
/// subscriptions.
pub(super) fn is_lasting(scope: &Scope) -> bool {
    matches!(scope.kind(), ScopeKind::Connection | ScopeKind::Session)
}
