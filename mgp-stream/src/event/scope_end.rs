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

    /// Moves subscriptions from other connections or sessions to that of the caller, with which they then end. Does
    /// nothing if the caller has no connection or session. If it has no room for all of them, moves none and returns an
    /// error.
    pub(super) fn bind_to_caller(
        &self,
        cx: &Context,
        subscriptions: &[Arc<Subscription>],
    ) -> Result<(), RpcError> {
        let scope = cx.scope.id();
        let stays = |one: &Arc<Subscription>| one.scope().is_none_or(|known| known == scope);
        if !is_lasting(&cx.scope) || subscriptions.iter().all(stays) {
            return Ok(());
        }
        let moved = self.0.table.write().rebind(&self.0.limits, subscriptions, scope)?;
        for subscription in moved {
            self.end_with(&cx.scope, subscription);
        }
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
