//! The set of tools that pass a filter (MGP §16.5).

use mgp_types::mcp::Tool;
use mgp_types::mgp::Permission;
use mgp_types::proposal::{CostHints, LatencyClass};
use rustc_hash::FxHashMap;

use super::catalog::{Catalog, Record, rank};
use super::category::{canonical, is_in};
use super::entry::Entry;
use super::{Bitmap, ServerNumber};
use crate::search::Filter;

/// Returns the cost and latency that a definition states.
pub(crate) fn cost_hints(definition: &str) -> CostHints {
    // Search the text for the names of the members first: few definitions have these members, and only such a
    // definition must be parsed.
    if !definition.contains("\"cost\"") && !definition.contains("\"latency\"") {
        return CostHints::default();
    }
    serde_json::from_str::<Tool>(definition)
        .map_or_else(|_| CostHints::default(), |tool| CostHints::of(&tool))
}

/// A filter that is prepared for testing the tools of a catalogue. It ignores input and output types, because the
/// keyword index tests them.
pub(crate) struct FilterTest<'a> {
    catalog: &'a Catalog,
    categories: Option<Vec<String>>,
    /// A cache of the result for each list of categories, by the number of the list: `true` if the list satisfies the
    /// filter.
    lists: FxHashMap<u32, bool>,
    risk: Option<u8>,
    states: Option<FxHashMap<ServerNumber, bool>>,
    filter: &'a Filter,
    servers: Option<Vec<ServerNumber>>,
    permissions: Option<Vec<Permission>>,
}

impl<'a> FilterTest<'a> {
    pub(crate) fn new(catalog: &'a Catalog, filter: &'a Filter) -> Self {
        let categories = (!filter.categories.is_empty())
            .then(|| filter.categories.iter().filter_map(|wanted| canonical(wanted)).collect());
        let servers = (!filter.servers.is_empty()).then(|| {
            let mut servers: Vec<_> =
                filter.servers.iter().filter_map(|id| catalog.server_number(id)).collect();
            servers.sort_unstable();
            servers
        });
        Self {
            catalog,
            categories,
            lists: FxHashMap::default(),
            risk: filter.risk_level_max.as_ref().map(rank),
            states: filter.status.is_some().then(FxHashMap::default),
            filter,
            servers,
            permissions: filter.permissions.as_ref().map(Permission::canonical),
        }
    }

    /// Returns whether this test has no condition, so that every tool passes.
    pub(crate) fn is_empty(&self) -> bool {
        self.categories.is_none()
            && self.risk.is_none()
            && self.states.is_none()
            && self.servers.is_none()
            && self.permissions.is_none()
            && !self.reads_costs()
    }

    /// Returns the numbers of the servers that the filter allows; `None` if it allows all servers.
    pub(crate) fn servers(&self) -> Option<&[ServerNumber]> {
        self.servers.as_deref()
    }

    pub(crate) fn passes(&mut self, record: &Record) -> bool {
        self.risk.is_none_or(|most| record.risk <= most)
            && self.servers.as_ref().is_none_or(|all| all.binary_search(&record.server).is_ok())
            && self.has_state(record.server)
            && self.has_category(record)
            && self.needs_no_more(&record.entry)
            && (!self.reads_costs() || self.is_cheap(&record.entry))
    }

    fn reads_costs(&self) -> bool {
        self.filter.max_cost_units.is_some() || self.filter.latency_max.is_some()
    }

    /// Returns whether a tool is within the filter's limits of cost and latency. If a value is limited and the tool's
    /// definition does not state it, the tool is not within the limit.
    fn is_cheap(&self, entry: &Entry) -> bool {
        let hints = cost_hints(&entry.definition);
        let units = |most| hints.units().is_some_and(|units| units <= most);
        let latency = |most: &LatencyClass| {
            hints.latency.as_ref().is_some_and(|latency| latency.rank() <= most.rank())
        };
        self.filter.max_cost_units.is_none_or(units)
            && self.filter.latency_max.as_ref().is_none_or(latency)
    }

    fn has_state(&mut self, server: ServerNumber) -> bool {
        let (Some(known), Some(wanted)) = (&mut self.states, &self.filter.status) else {
            return true;
        };
        *known
            .entry(server)
            .or_insert_with(|| self.catalog.server(server).is_some_and(|s| s.state == *wanted))
    }

    fn has_category(&mut self, record: &Record) -> bool {
        let Some(wanted) = &self.categories else { return true };
        *self.lists.entry(record.categories).or_insert_with(|| {
            let mut categories = record.entry.categories.words.iter();
            categories.any(|category| wanted.iter().any(|wanted| is_in(category, wanted)))
        })
    }

    fn needs_no_more(&self, entry: &Entry) -> bool {
        let Some(given) = &self.permissions else { return true };
        let Some(security) = &entry.security else { return true };
        Permission::canonical(security.permissions_required.iter())
            .iter()
            .all(|needed| given.contains(needed))
    }

    /// Returns all tools that pass the filter.
    pub(crate) fn all(&mut self) -> Bitmap {
        let catalog = self.catalog;
        let mut passing = Bitmap::with_len(catalog.reach());
        if let Some(servers) = self.servers.clone() {
            let known = servers.iter().filter_map(|number| catalog.server(*number));
            for slot in known.flat_map(|server| server.slots.iter()) {
                if catalog.record(*slot).is_some_and(|record| self.passes(record)) {
                    passing.set(*slot);
                }
            }
        } else {
            for (slot, record) in catalog.records() {
                if self.passes(record) {
                    passing.set(slot);
                }
            }
        }
        passing
    }
}
