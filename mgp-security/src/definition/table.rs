//! What lookups read: the tools of each server, by name.
//!
//! Applies to: both.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use mgp_types::service::ServerId;
use mgp_types::{Hash, mcp};

use super::Standing;
use super::pin::Pin;
use crate::policy::ServerPolicy;
use crate::tool::Assessment;

/// Everything that is known of tools.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    /// The tools of the party itself.
    pub(super) own: Arc<Tools>,
    /// The tools of others.
    pub(super) servers: Sorted<ServerId, Arc<Tools>>,
}

/// The tools of one server.
#[derive(Debug, Default)]
pub(super) struct Tools {
    pub(super) named: Sorted<Box<str>, Arc<Known>>,
    /// What holds for all names that are not there.
    pub(super) others: Standing,
    /// Whether the server says that its list has changed since.
    pub(super) stale: bool,
    /// The operator's word that the assessments were made with.
    pub(super) policy: Option<Arc<ServerPolicy>>,
}

/// What is known of one tool.
#[derive(Debug)]
pub(super) struct Known {
    /// The definition as last listed; none where it could not be read, or is not listed.
    pub(super) tool: Option<Arc<mcp::Tool>>,
    /// The hash of its text as listed; none where it is our own, or known from its pin only.
    pub(super) raw: Option<Hash>,
    /// The pin it is known from where it is not listed.
    pub(super) pin: Option<Arc<Pin>>,
    /// What follows from it.
    pub(super) assessment: Arc<Assessment>,
    /// Whether it may be used.
    pub(super) standing: Standing,
    /// Set where the operator replaced its risk and no event tells of it yet.
    pub(super) untold: Arc<AtomicBool>,
}

/// Values by name; to find one costs fewer instructions than hashing the name, and no choice of names makes it slow.
#[derive(Clone, Debug)]
pub(super) struct Sorted<K, V>(Vec<(K, V)>);

impl<K: Name, V> Sorted<K, V> {
    pub(super) fn get(&self, name: &str) -> Option<&V> {
        let at = self.0.binary_search_by(|(known, _)| known.name().cmp(name)).ok()?;
        Some(&self.0[at].1)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.0.iter().map(|(name, value)| (name, value))
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl<K, V> Default for Sorted<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Ord, V> From<BTreeMap<K, V>> for Sorted<K, V> {
    fn from(values: BTreeMap<K, V>) -> Self {
        Self(values.into_iter().collect())
    }
}

/// A key that is a text, and sorts as it does.
pub(super) trait Name {
    fn name(&self) -> &str;
}

impl Name for Box<str> {
    fn name(&self) -> &str {
        self
    }
}

impl Name for ServerId {
    fn name(&self) -> &str {
        self.as_str()
    }
}

impl Table {
    /// The tools of a server.
    pub(super) fn of(&self, server: Option<&ServerId>) -> Option<&Arc<Tools>> {
        match server {
            Some(server) => self.servers.get(server.as_str()),
            None => Some(&self.own),
        }
    }

    /// One tool.
    pub(super) fn get(&self, server: Option<&ServerId>, tool: &str) -> Option<&Arc<Known>> {
        self.of(server)?.named.get(tool)
    }
}
