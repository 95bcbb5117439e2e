//! The list of the subscriptions that clients requested, and their end by an operator.

use std::sync::Arc;

use mgp_types::mgp::KernelSubscription;
use mgp_types::service::{AgentId, TenantId};
use mgp_types::store::StoreError;
use tokio::time::Instant;

use super::EventHub;
use super::hub::ID_PREFIX;
use super::lifetime::end_later;
use super::pattern::Pattern;
use super::subscription::Subscription;

impl EventHub {
    /// Returns the subscriptions that clients of a tenant requested, sorted by agent.
    #[must_use]
    pub fn list_subscriptions(&self, tenant: &TenantId) -> Vec<KernelSubscription> {
        let now = Instant::now();
        let known = self.of_clients(tenant).into_iter().filter(|one| !one.is_expired(now));
        let mut listed: Vec<_> = known.map(|one| one.to_listed()).collect();
        listed.sort_by(|one, other| (&one.agent_id, &one.id).cmp(&(&other.agent_id, &other.id)));
        listed
    }

    /// Ends the subscriptions that clients of a tenant requested, or only the one with this id, and removes their
    /// stored events. Connected clients get a last event on the channel `subscription_terminated`.
    ///
    /// # Errors
    /// Returns the store's error if the store fails; the subscriptions have ended nevertheless.
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the subscriptions end nevertheless.
    pub async fn end_subscriptions(
        &self,
        tenant: &TenantId,
        id: Option<&str>,
    ) -> Result<(), StoreError> {
        let mut stored = Vec::new();
        for one in self.of_clients(tenant) {
            let is_durable = one.is_durable();
            if id.is_none_or(|id| one.id == id) && self.0.terminate(&one, "ended_by_operator") {
                tracing::info!(subscription = one.id, "subscription ended by an operator");
                tokio::spawn(end_later(Arc::downgrade(&one)));
                stored.extend(is_durable.then(|| one.id.clone()));
            }
        }
        self.remove_stored(stored).await
    }

    /// Returns the owners of the durable subscriptions in a database that clients requested, without changing it; an
    /// owner of several subscriptions is in the list several times.
    ///
    /// # Errors
    /// Returns the store's error if the store fails.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time.
    #[cfg(feature = "sqlite")]
    pub async fn subscribers(
        db: &mgp_types::store::Db,
    ) -> Result<Vec<mgp_types::service::Principal>, StoreError> {
        let stored = super::sqlite::read_all(db).await?.into_iter();
        let of_clients = stored.filter(|one| one.id.starts_with(ID_PREFIX));
        let restored = of_clients.filter_map(|one| Subscription::from_stored(&one).ok());
        Ok(restored.map(|one| one.principal).collect())
    }

    fn of_clients(&self, tenant: &TenantId) -> Vec<Arc<Subscription>> {
        let table = self.0.table.read();
        let is_of_client = |one: &&Arc<Subscription>| {
            one.principal.tenant() == tenant && one.id.starts_with(ID_PREFIX)
        };
        table.all().filter(is_of_client).cloned().collect()
    }
}

impl Subscription {
    fn to_listed(&self) -> KernelSubscription {
        let mut listed = KernelSubscription::new(
            self.id.as_str(),
            self.principal.subject().as_str(),
            self.is_durable(),
            self.is_in_use(),
            self.waiting(),
        );
        listed.agent_id = self.principal.as_agent().map(AgentId::to_string);
        listed.channels = self.patterns.iter().map(Pattern::to_text).collect();
        listed.expires_at = self.ends_at();
        listed
    }
}
