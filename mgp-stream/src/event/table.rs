//! The table of channels and subscriptions. It is indexed by pattern, so that publishing an event visits only the
//! subscriptions that match.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ahash::RandomState;
use mgp_types::service::{Principal, ScopeId, ServerId};
use mgp_types::{ErrorCode, RpcError};

use super::EventLimits;
use super::pattern::{Pattern, is_name};
use super::subscription::Subscription;

/// The maximum number of channels that the table stores, of all servers together.
const MAX_CHANNELS: usize = 65_536;

/// The maximum number of known channels per server, so that one server cannot displace the channels of others.
const MAX_CHANNELS_OF_SERVER: usize = 512;

/// The number of severity levels.
const RANKS: usize = 3;

/// The subscriptions with the same pattern, in one list for each minimum severity.
type Buckets = [Vec<Arc<Subscription>>; RANKS];

/// The names of channels, with their descriptions.
pub(super) type Channels = BTreeMap<String, Option<String>>;

#[derive(Default)]
pub(super) struct Table {
    /// The known channels of this server itself.
    own_channels: Channels,
    /// The known channels of the servers behind this one.
    forwarded_channels: BTreeMap<ServerId, Channels>,
    by_id: HashMap<String, Arc<Subscription>, RandomState>,
    /// The subscriptions by each of their patterns: `*`, a prefix that ends with a dot, or the name of a channel. A
    /// pattern that another pattern of the subscription covers is left out.
    index: HashMap<String, Buckets, RandomState>,
    per_scope: HashMap<ScopeId, usize, RandomState>,
    per_principal: HashMap<Principal, usize, RandomState>,
}

impl Table {
    /// Returns the known channels of each server; `None` as the server means this server itself.
    pub(super) fn channels(&self) -> impl Iterator<Item = (Option<&ServerId>, &Channels)> {
        let forwarded = self.forwarded_channels.iter().map(|(server, names)| (Some(server), names));
        [(None, &self.own_channels)].into_iter().chain(forwarded)
    }

    pub(super) fn has_channel(&self, server: Option<&ServerId>, name: &str) -> bool {
        let channels = match server {
            None => Some(&self.own_channels),
            Some(server) => self.forwarded_channels.get(server),
        };
        channels.is_some_and(|channels| channels.contains_key(name))
    }

    /// Adds a channel, unless its name is not valid, or the table or the channel's server has too many channels. If the
    /// channel is known, a given description replaces the known one.
    pub(super) fn add_channel(
        &mut self,
        server: Option<&ServerId>,
        name: String,
        description: Option<String>,
    ) {
        if !is_name(&name) {
            return;
        }
        let is_full = self.channels().map(|(_, names)| names.len()).sum::<usize>() >= MAX_CHANNELS;
        let channels = match server {
            None => &mut self.own_channels,
            Some(server) => self.forwarded_channels.entry(server.clone()).or_default(),
        };
        let has_room = !is_full && channels.len() < MAX_CHANNELS_OF_SERVER;
        let is_wanted = if channels.contains_key(&name) { description.is_some() } else { has_room };
        if is_wanted {
            channels.insert(name, description);
        }
    }

    /// Removes the channels of a server behind this one.
    pub(super) fn forget_channels(&mut self, server: &ServerId) {
        self.forwarded_channels.remove(server);
    }

    pub(super) fn get(&self, id: &str) -> Option<&Arc<Subscription>> {
        self.by_id.get(id)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Subscription>> {
        self.by_id.values()
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Calls `visit` with each subscription that matches a channel and a severity. No subscription is visited twice,
    /// because at most one of its patterns in the index matches a channel.
    pub(super) fn each_match(
        &self,
        channel: &str,
        rank: u8,
        mut visit: impl FnMut(&Arc<Subscription>),
    ) {
        // Skip the search if there are no subscriptions, because most servers have none but publish many events.
        if self.index.is_empty() {
            return;
        }
        let families = channel.match_indices('.').map(|(dot, _)| &channel[..=dot]);
        for key in ["*"].into_iter().chain(families).chain([channel]) {
            if let Some(buckets) = self.index.get(key) {
                buckets.iter().take(usize::from(rank) + 1).flatten().for_each(&mut visit);
            }
        }
    }

    /// Returns an error if a subscription cannot be added: its id is used already, or the maximum number is reached for
    /// its principal, for its scope or for the whole table.
    fn check_room(
        &self,
        limits: &EventLimits,
        subscription: &Subscription,
    ) -> Result<(), RpcError> {
        if self.by_id.contains_key(&subscription.id) {
            let message = "there is a subscription with this id already";
            return Err(RpcError::new(ErrorCode::RESOURCE_EXHAUSTED, message));
        }
        let used = |count: Option<&usize>| count.copied().unwrap_or_default();
        let scope = subscription.scope();
        let of_scope = scope.map_or(0, |scope| used(self.per_scope.get(&scope)));
        let of_principal = used(self.per_principal.get(&subscription.principal));
        let refusal = if of_scope >= limits.per_scope {
            too_many_of_scope(limits)
        } else if of_principal >= limits.per_principal {
            format!("a caller may have {} subscriptions to events", limits.per_principal)
        } else if self.by_id.len() >= limits.total {
            "there are too many subscriptions to events".to_owned()
        } else {
            return Ok(());
        };
        Err(exhausted(&refusal))
    }

    /// Adds a subscription to the table.
    ///
    /// # Errors
    /// Returns the error of [`check_room`](Self::check_room).
    pub(super) fn insert(
        &mut self,
        limits: &EventLimits,
        subscription: &Arc<Subscription>,
    ) -> Result<(), RpcError> {
        self.check_room(limits, subscription)?;
        if let Some(scope) = subscription.scope() {
            *self.per_scope.entry(scope).or_default() += 1;
        }
        *self.per_principal.entry(subscription.principal.clone()).or_default() += 1;
        self.by_id.insert(subscription.id.clone(), Arc::clone(subscription));
        self.add_to_index(subscription);
        Ok(())
    }

    /// Returns whether the table contains this very subscription. Another subscription with the same id does not count.
    pub(super) fn has(&self, subscription: &Arc<Subscription>) -> bool {
        self.get(&subscription.id).is_some_and(|known| Arc::ptr_eq(known, subscription))
    }

    /// Counts subscriptions for the connection or session `scope` instead of their previous connections or sessions.
    /// Returns the subscriptions that were moved; those that have ended or belong to no scope are not.
    ///
    /// # Errors
    /// Moves none, and returns 3001 (resource exhausted), if `scope` would have more than the maximum number.
    pub(super) fn rebind<'a>(
        &mut self,
        limits: &EventLimits,
        subscriptions: &'a [Arc<Subscription>],
        scope: ScopeId,
    ) -> Result<Vec<&'a Arc<Subscription>>, RpcError> {
        let is_elsewhere = |one: &&Arc<Subscription>| {
            one.scope().is_some_and(|before| before != scope) && self.has(one)
        };
        let mut moved: Vec<_> = subscriptions.iter().filter(is_elsewhere).collect();
        // A client can name a subscription twice.
        moved.sort_unstable_by_key(|one| Arc::as_ptr(one));
        moved.dedup_by_key(|one| Arc::as_ptr(one));
        let count = self.per_scope.get(&scope).copied().unwrap_or_default() + moved.len();
        if moved.is_empty() {
            return Ok(moved);
        }
        if count > limits.per_scope {
            return Err(exhausted(&too_many_of_scope(limits)));
        }
        self.per_scope.insert(scope, count);
        for one in &moved {
            if let Some(before) = one.scope() {
                decrement(&mut self.per_scope, &before);
            }
            one.set_scope(scope);
        }
        Ok(moved)
    }

    /// Returns whether a principal has the maximum number of subscriptions.
    pub(super) fn is_full_for(&self, limits: &EventLimits, principal: &Principal) -> bool {
        self.per_principal.get(principal).is_some_and(|count| *count >= limits.per_principal)
    }

    pub(super) fn remove(&mut self, id: &str) -> Option<Arc<Subscription>> {
        let removed = self.by_id.remove(id)?;
        if let Some(scope) = removed.scope() {
            decrement(&mut self.per_scope, &scope);
        }
        decrement(&mut self.per_principal, &removed.principal);
        self.remove_from_index(&removed);
        Some(removed)
    }

    fn add_to_index(&mut self, subscription: &Arc<Subscription>) {
        for pattern in Pattern::reduce(&subscription.patterns) {
            let buckets = self.index.entry(index_key(pattern).to_owned()).or_default();
            buckets[bucket(subscription.filter.rank)].push(Arc::clone(subscription));
        }
    }

    fn remove_from_index(&mut self, subscription: &Arc<Subscription>) {
        for pattern in Pattern::reduce(&subscription.patterns) {
            let key = index_key(pattern);
            let Some(buckets) = self.index.get_mut(key) else { continue };
            buckets[bucket(subscription.filter.rank)]
                .retain(|other| !Arc::ptr_eq(other, subscription));
            if buckets.iter().all(Vec::is_empty) {
                self.index.remove(key);
            }
        }
    }
}

fn too_many_of_scope(limits: &EventLimits) -> String {
    format!("a client may have {} subscriptions to events", limits.per_scope)
}

fn exhausted(refusal: &str) -> RpcError {
    let message = format!("{refusal}; unsubscribe from another one first");
    RpcError::new(ErrorCode::RESOURCE_EXHAUSTED, message)
}

fn decrement<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, usize, RandomState>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

fn bucket(rank: u8) -> usize {
    usize::from(rank).min(RANKS - 1)
}

fn index_key(pattern: &Pattern) -> &str {
    match pattern {
        Pattern::All => "*",
        Pattern::Below(key) | Pattern::Exact(key) => key,
    }
}
