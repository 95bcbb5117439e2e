//! Ends subscriptions when their connection or session ends.

use std::sync::Arc;

use mgp_types::RpcError;
use mgp_types::service::{Context, Scope, ScopeId};

use super::EventHub;
use super::hub::Hub;
use super::subscription::{Subscription, is_lasting};

impl EventHub {
    /// Registers a function at a scope. The function ends the subscription when the scope ends. Does nothing if the
    /// subscription does not belong to the scope.
    pub(super) fn end_with(&self, scope: &Scope, subscription: &Arc<Subscription>) {
        let id = scope.id();
        if subscription.scope() != Some(id) {
            return;
        }
        let (hub, ending) = (Arc::downgrade(&self.0), Arc::downgrade(subscription));
        let end = move || {
            if let (Some(hub), Some(ending)) = (hub.upgrade(), ending.upgrade()) {
                hub.remove_from_scope(id, &ending);
            }
        };
        subscription.set_scope_guard(id, scope.on_end(end));
    }

    /// Moves a subscription to the caller's connection or session, unless it belongs to that already. The subscription
    /// then ends with the caller's connection or session.
    pub(super) fn bind_to_caller(
        &self,
        cx: &Context,
        subscription: &Arc<Subscription>,
    ) -> Result<(), RpcError> {
        let known = subscription.scope();
        if !is_lasting(&cx.scope) || known.is_none_or(|known| known == cx.scope.id()) {
            return Ok(());
        }
        self.0.table.write().rebind(&self.0.limits, subscription, cx.scope.id())?;
        self.end_with(&cx.scope, subscription);
        Ok(())
    }
}

impl Hub {
    /// Removes a subscription because `scope` has ended, unless the subscription was continued in another scope.
    fn remove_from_scope(&self, scope: ScopeId, subscription: &Arc<Subscription>) {
        let mut table = self.table.write();
        let is_bound = subscription.scope() == Some(scope);
        if is_bound && table.has(subscription) {
            table.remove(&subscription.id);
            drop(table);
            subscription.end();
        }
    }
}
