//! The table in which decisions look up the tools of each server by name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mgp_types::mgp::Permission;
use mgp_types::service::ServerId;
use mgp_types::{Lenient, Sha256Hash, mcp};
use tokio::time::Instant;

use super::DefinitionState;
use super::pin::Pin;
use super::review::Finding;
use crate::policy::ServerPolicy;
use crate::tool::Assessment;
#[cfg(feature = "schemas")]
use crate::tool::{ArgumentsRefused, ToolSchemas};

/// The age at which a list counts as outdated. A call of a tool that is missing in an outdated list causes a new list
/// request.
const FRESH_LIST_TTL: Duration = Duration::from_secs(30);

/// The maximum number of entries for which a map is searched linearly.
const FEW: usize = 4;

/// All known tools of all servers.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    /// The tools of this process, if they have no server id.
    pub(super) own: Arc<Tools>,
    pub(super) servers: Sorted<ServerId, Arc<Tools>>,
    /// For each server, the number of the last change of the tools that it shows to callers.
    pub(super) revisions: BTreeMap<ServerId, u64>,
    pub(super) last_change: u64,
}

/// The tools of one server.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "any combination of these facts can occur")]
pub(crate) struct Tools {
    pub(super) named: Sorted<Box<str>, Arc<KnownTool>>,
    /// The state of every tool that is not in `named`.
    pub(super) others: DefinitionState,
    /// `true` if tools were left out because a limit was reached.
    pub(super) is_full: bool,
    /// `true` if the server has reported a change of its tools since the list was read.
    pub(super) stale: bool,
    /// `true` if the server has reported changes several times in a row, and its list stayed the same.
    pub(crate) is_noisy: bool,
    /// `true` if these are the tools of this process, which are trusted and not pinned.
    pub(super) own: bool,
    /// The time at which a complete list was last requested or received.
    pub(super) complete: Option<Instant>,
    /// The operator's policy under which the tools were assessed.
    pub(super) policy: Option<Arc<ServerPolicy>>,
}

#[derive(Debug)]
pub(crate) struct KnownTool {
    /// The definition as last listed; `None` if it could not be parsed, or if the tool is not listed.
    pub(super) tool: Option<Arc<mcp::Tool>>,
    /// The hash of the definition's JSON as listed; `None` for a tool of this process, or a tool that is known only
    /// from its pin.
    pub(super) raw: Option<Sha256Hash>,
    /// `false` for a tool that is known only from its pin, the policy or an earlier list.
    pub(super) is_in_last_list: bool,
    /// The pin of a tool that is not listed, which contains the tool's definition.
    pub(super) pin: Option<Arc<Pin>>,
    pub(super) assessment: Arc<Assessment>,
    /// The schemas in the tool's definition, if the policy requires that arguments are checked.
    #[cfg(feature = "schemas")]
    pub(super) schemas: Option<Arc<ToolSchemas>>,
    pub(super) standing: DefinitionState,
    /// The findings about the definition as last listed.
    pub(super) findings: Arc<[Finding]>,
    /// `true` if the operator overrides the risk and no event has recorded that yet.
    pub(super) unrecorded: Arc<AtomicBool>,
}

/// A map sorted by the length of the keys, then by the keys themselves.
///
/// Most comparisons of the binary search only compare lengths, so a lookup takes less time than hashing the name would,
/// and names chosen by an attacker cannot slow it down.
#[derive(Clone, Debug)]
pub(super) struct Sorted<K, V>(Vec<(K, V)>);

impl<K: Name, V> Sorted<K, V> {
    #[inline]
    pub(super) fn get(&self, name: &str) -> Option<&V> {
        // For so few entries, a linear search is faster.
        if self.0.len() <= FEW {
            return self.0.iter().find(|(known, _)| known.name() == name).map(|(_, value)| value);
        }
        let order = |known: &str| known.len().cmp(&name.len()).then_with(|| known.cmp(name));
        let at = self.0.binary_search_by(|(known, _)| order(known.name())).ok()?;
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

impl<K: Ord + Name, V> From<BTreeMap<K, V>> for Sorted<K, V> {
    fn from(values: BTreeMap<K, V>) -> Self {
        let mut values: Vec<_> = values.into_iter().collect();
        // The sort is stable, so names of equal length keep their order.
        values.sort_by_key(|(name, _)| name.name().len());
        Self(values)
    }
}

/// A key with a string form; keys and their strings are sorted in the same order.
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
    /// Returns the tools of a server; `None` selects the tools of this process.
    #[inline]
    pub(super) fn of(&self, server: Option<&str>) -> Option<&Arc<Tools>> {
        match server {
            Some(server) => self.servers.get(server),
            None => Some(&self.own),
        }
    }

    /// Returns the servers whose tools callers see differently in two tables.
    pub(super) fn changed_servers(&self, other: &Self) -> BTreeSet<ServerId> {
        let none = Arc::default();
        let is_same = |id: &ServerId| {
            let [ours, theirs] =
                [self, other].map(|table| table.servers.get(id.as_str()).unwrap_or(&none));
            Arc::ptr_eq(ours, theirs) || ours.shows_same(theirs)
        };
        let ids = self.servers.iter().chain(other.servers.iter()).map(|(id, _)| id);
        ids.filter(|id| !is_same(id)).cloned().collect()
    }

    /// Derives the revisions from the revisions of the earlier table `before`: each changed server gets the next
    /// number, and removed servers have no number.
    pub(super) fn count_changes(&mut self, before: &Self, changed: BTreeSet<ServerId>) {
        let number = before.last_change + 1;
        let mut revisions = before.revisions.clone();
        revisions.extend(changed.into_iter().map(|server| (server, number)));
        revisions.retain(|server, _| self.servers.get(server.as_str()).is_some());
        (self.revisions, self.last_change) = (revisions, number);
    }
}

impl Tools {
    /// Returns whether two lists of tools show callers the same tools.
    pub(super) fn shows_same(&self, other: &Self) -> bool {
        if self.others.is_callable() != other.others.is_callable() {
            return false;
        }
        // Look up each name only once, because this runs for all tools of a server after each page of its list.
        let mut ours = self.named.iter().map(|(name, ours)| (ours, other.get(name)));
        let mut added = other.named.iter().filter(|(name, _)| self.get(name).is_none());
        ours.all(|(ours, theirs)| {
            let state = theirs.map_or(&other.others, |theirs| &theirs.standing);
            ours.standing.is_callable() == state.is_callable()
                && theirs.is_none_or(|theirs| ours.assessment == theirs.assessment)
        }) && added.all(|(_, theirs)| theirs.standing.is_callable() == self.others.is_callable())
    }
}

#[derive(Debug)]
pub(crate) enum DefinitionRule {
    /// The definition allows calls of the tool.
    Allow,
    /// The tool can be called as soon as an event has recorded that the operator overrides its risk.
    Record,
    /// The tool must not be called.
    Refuse(DefinitionState),
    /// The server's tools must be listed before the tool can be called.
    List,
}

impl Tools {
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<KnownTool>> {
        self.named.get(name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.named.iter().map(|(name, _)| &**name)
    }

    pub(crate) fn state(&self, name: &str) -> &DefinitionState {
        self.get(name).map_or(&self.others, |known| &known.standing)
    }

    /// Returns whether any tool of the server declares that it needs a permission.
    pub(crate) fn declare(&self, permission: &Permission) -> bool {
        self.named.iter().any(|(_, known)| known.declares(permission))
    }

    /// Returns the decision about the definition of another server's tool; `known` is the tool's [entry](Self::get) in
    /// this table.
    pub(crate) fn rule(&self, known: Option<&KnownTool>) -> DefinitionRule {
        let is_open = known.is_some() || self.others == DefinitionState::Unseen;
        if self.is_outdated() && is_open {
            DefinitionRule::List
        } else {
            self.rule_of_current(known)
        }
    }

    /// Returns whether the server has reported a change that counts. If the server reports changes although its list
    /// stays the same (`is_noisy`), they do not count while its list is fresh. Otherwise, if a server reports a change
    /// with each answer, each call would list the tools, and other calls that were decided before would fail.
    pub(super) fn is_outdated(&self) -> bool {
        self.stale && (!self.is_noisy || self.is_old())
    }

    /// Returns the decision about a definition as [`rule`](Self::rule) does, but ignores changes that the server has
    /// announced.
    pub(crate) fn rule_of_current(&self, known: Option<&KnownTool>) -> DefinitionRule {
        let Some(known) = known else {
            return match &self.others {
                DefinitionState::Unseen if self.is_old() => DefinitionRule::List,
                DefinitionState::Unseen => DefinitionRule::Allow,
                refused => DefinitionRule::Refuse(refused.clone()),
            };
        };
        match &known.standing {
            // The definition is listed but not pinned yet, or the list is so old that the tool may have been added
            // since. So list the tools first.
            DefinitionState::Unseen if known.tool.is_some() || self.is_old() => {
                DefinitionRule::List
            }
            DefinitionState::Pinned | DefinitionState::Unseen if known.is_unrecorded() => {
                DefinitionRule::Record
            }
            DefinitionState::Pinned | DefinitionState::Unseen => DefinitionRule::Allow,
            held => DefinitionRule::Refuse(held.clone()),
        }
    }

    /// Returns whether these are the tools of this process, which are trusted.
    pub(crate) fn are_own(&self) -> bool {
        self.own
    }

    /// Returns whether the list is so old that a tool missing in it might exist now.
    fn is_old(&self) -> bool {
        !self.own && self.complete.is_none_or(|at| at.elapsed() > FRESH_LIST_TTL)
    }
}

impl KnownTool {
    /// Returns whether the operator overrides the risk of the tool and no event has recorded that yet.
    pub(crate) fn is_unrecorded(&self) -> bool {
        self.unrecorded.load(Ordering::Acquire)
    }

    /// Returns the definition as it was last listed; for a tool that is not listed, returns the pinned definition.
    pub(super) fn definition_or_pinned(&self) -> Option<Arc<mcp::Tool>> {
        let pinned = || self.pin.as_ref()?.shown.get::<mcp::Tool>().ok().map(Arc::new);
        self.tool.clone().or_else(pinned)
    }

    fn declares(&self, permission: &Permission) -> bool {
        let Some(tool) = self.definition_or_pinned() else { return false };
        let security = tool.find_security();
        let declared = security.as_ref().and_then(Lenient::valid);
        declared.is_some_and(|security| {
            Permission::canonical(security.permissions_required.iter()).contains(permission)
        })
    }

    pub(crate) fn assessment(&self) -> &Arc<Assessment> {
        &self.assessment
    }

    /// Checks the arguments of a call against the schema in the tool's definition. Returns `None` if the policy does
    /// not require that, if the server does not list the tool, or if the schema cannot be used for a check.
    #[cfg(feature = "schemas")]
    pub(crate) fn check_arguments(
        &self,
        arguments: Option<&str>,
    ) -> Option<Result<(), Box<ArgumentsRefused>>> {
        let (tool, schemas) = self.tool.as_ref().zip(self.schemas.as_ref())?;
        schemas.check_arguments(tool, arguments)
    }

    /// Returns the definition as the server lists it; `None` if it does not list the tool.
    pub(crate) fn definition(&self) -> Option<&mcp::Tool> {
        self.tool.as_deref()
    }

    pub(crate) fn is_listed(&self) -> bool {
        self.tool.is_some()
    }
}
