//! The table of all stored queries, and the enforcement of its limits.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use mgp_types::service::{Subject, TenantId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::config::{Erase, HistoryConfig, HistoryScope, HistoryStats, Retention};
use super::partition::{Partition, ToolUse};
use super::query::{
    MAX_TEXT_BYTES, MAX_TOOLS_PER_QUERY, Owner, QueryId, QueryKey, StoredQuery, ToolCalls, WordHash,
};
use crate::text::truncate;
use crate::vector::VectorTable;

/// The minimum number of new calls after which a model is fitted again. The number of new calls must also be at least a
/// fifth of the number of queries.
const MIN_NEW_CALLS: usize = 8;

/// The maximum number of other subjects of a tenant from whom a subject learns: the subjects with the latest calls.
const MAX_OTHERS: usize = 16;

/// All stored queries and tools; each partition has the queries and tools of one owner.
#[derive(Debug)]
pub(super) struct HistoryTable {
    pub(super) config: HistoryConfig,
    pub(super) queries: Slab<StoredQuery>,
    pub(super) tools: Slab<ToolUse>,
    pub(super) partitions: FxHashMap<Owner, Partition>,
    /// The length of the TF-IDF vector of each query, computed when the query was stored and whenever the model is
    /// fitted.
    pub(super) lengths: Vec<f32>,
    /// The total weight of each tool in all stored calls, by the number of the tool. It is a plain list, like
    /// `lengths`, because searches scan both lists.
    pub(super) weights: Vec<f32>,
    pub(super) rows: Option<VectorTable>,
    /// The mean vectors of the tools.
    pub(super) centres: Option<VectorTable>,
    /// The subjects of each tenant with the latest calls, newest first; empty unless the subjects of a tenant learn
    /// from each other.
    recent: FxHashMap<TenantId, Vec<Subject>>,
    keys: FxHashMap<QueryKey, QueryId>,
    by_last_use: BTreeMap<u64, QueryId>,
    next: u64,
    /// The queries whose vectors are not computed yet. If the options forbid storing texts, the text is kept here until
    /// its vector is computed; otherwise the entry has no text.
    without_vector: BTreeMap<QueryId, Option<Box<str>>>,
    /// `true` if the model of some owner must be fitted again.
    pub(super) is_due: bool,
    /// A counter of the changes that can require background work: recorded calls, erasures, and changes of the vectors'
    /// length.
    pub(super) changes: u64,
    /// The queries to write to the database, if the history has a database.
    pub(super) changed: Option<FxHashSet<QueryKey>>,
}

/// A map from small numbers to values, which reuses freed numbers.
#[derive(Debug)]
pub(super) struct Slab<T> {
    values: Vec<Option<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
pub(super) struct NewQuery<'a> {
    pub(super) owner: Owner,
    pub(super) key: QueryKey,
    pub(super) text: Option<&'a str>,
    pub(super) words: Vec<WordHash>,
    pub(super) vector: Option<Vec<f32>>,
    /// The current time, in seconds since 1970.
    pub(super) now: u64,
}

impl HistoryTable {
    pub(super) fn new(config: HistoryConfig) -> Self {
        Self {
            config,
            queries: Slab::new(),
            tools: Slab::new(),
            partitions: FxHashMap::default(),
            lengths: Vec::new(),
            weights: Vec::new(),
            rows: None,
            centres: None,
            recent: FxHashMap::default(),
            keys: FxHashMap::default(),
            by_last_use: BTreeMap::new(),
            next: 0,
            without_vector: BTreeMap::new(),
            is_due: false,
            changes: 0,
            changed: None,
        }
    }

    /// Returns the partitions of the other subjects from whom an owner learns; empty unless the subjects of a tenant
    /// learn from each other.
    pub(super) fn others(&self, owner: &Owner) -> impl Iterator<Item = &Partition> {
        let recent = self.recent.get(&owner.tenant).into_iter().flatten();
        let others = recent.filter(move |other| **other != owner.subject);
        others.filter_map(|subject| {
            let key = Owner { tenant: owner.tenant.clone(), subject: subject.clone() };
            self.partitions.get(&key)
        })
    }

    /// Stores a call that followed a query, and enforces all limits.
    pub(super) fn record(&mut self, new_query: &NewQuery<'_>, tool: &str, times: u32) {
        let owner = &new_query.owner;
        self.changes += 1;
        self.remove_expired(new_query.now);
        let query_id = match self.keys.get(&new_query.key) {
            Some(query_id) => *query_id,
            None => self.insert(new_query),
        };
        self.mark_used(owner, query_id, new_query.now);
        self.add_call(owner, query_id, tool, times);
        self.enforce_bounds(owner);
        if self.config.scope == HistoryScope::Tenant {
            self.mark_recent(owner);
        }
        if let Some(partition) = self.partitions.get_mut(owner) {
            partition.new_calls += 1;
            self.is_due |= partition.new_calls >= MIN_NEW_CALLS.max(partition.len() / 5);
        }
    }

    pub(super) fn contains(&self, key: QueryKey) -> bool {
        self.keys.contains_key(&key)
    }

    #[cfg(feature = "sqlite")]
    pub(super) fn query(&self, key: QueryKey) -> Option<(QueryId, &StoredQuery)> {
        let query_id = *self.keys.get(&key)?;
        Some((query_id, self.queries.get(query_id)?))
    }

    /// Sets the vector of a query, and adds it to the sums of the tools called after the query.
    pub(super) fn set_vector(&mut self, query_id: QueryId, vector: &[f32]) {
        self.without_vector.remove(&query_id);
        let Some(rows) = &mut self.rows else { return };
        if rows.dimensions() == vector.len() && rows.row(query_id).is_none() {
            rows.set(query_id, vector);
            self.add_vector_to_tools(query_id);
            self.changed_at(query_id);
        }
    }

    /// Marks a query as finished without a vector, because the embedder cannot embed its text. So the embedder is not
    /// called for it again.
    pub(super) fn leave_without_vector(&mut self, query_id: QueryId) {
        self.without_vector.remove(&query_id);
    }

    /// Sets the vector of a query to a stored vector from the database.
    #[cfg(feature = "sqlite")]
    pub(super) fn restore(&mut self, key: QueryKey, row: &[i8]) {
        let (Some(query_id), Some(rows)) = (self.keys.get(&key).copied(), &mut self.rows) else {
            return;
        };
        if rows.row(query_id).is_none() {
            rows.restore(query_id, row);
            if rows.row(query_id).is_some() {
                self.without_vector.remove(&query_id);
                self.add_vector_to_tools(query_id);
            }
        }
    }

    /// Returns the first query after `after` whose vector is not computed yet.
    pub(super) fn without_vector(&self, after: Option<QueryId>) -> Option<QueryId> {
        self.rows.as_ref()?;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.without_vector.range((from, Bound::Unbounded)).next().map(|(query_id, _)| *query_id)
    }

    /// Returns the key of a query and its text, if its vector is not computed yet.
    pub(super) fn text_to_embed(&self, query_id: QueryId) -> Option<(QueryKey, Box<str>)> {
        let query = self.queries.get(query_id)?;
        let text = self.without_vector.get(&query_id)?.as_ref().or(query.text.as_ref())?;
        Some((query.key, text.clone()))
    }

    /// Removes the texts that are kept only until their vectors are computed, because no embedder can compute them.
    /// Their queries stay without vectors.
    pub(super) fn drop_kept_texts(&mut self) {
        self.without_vector.retain(|_, text| text.is_none());
    }

    fn add_vector_to_tools(&mut self, query_id: QueryId) {
        let Some(query) = self.queries.get(query_id) else { return };
        for call in query.calls.clone() {
            self.add_to_sum(query_id, call.tool, call.weight());
        }
    }

    /// Sets the length of vectors; with `None`, no vectors are stored. A different length drops all vectors.
    pub(super) fn set_dimensions(&mut self, dimensions: Option<usize>) {
        if self.rows.as_ref().map(VectorTable::dimensions) == dimensions {
            return;
        }
        self.changes += 1;
        self.rows = dimensions.map(VectorTable::new);
        self.centres = dimensions.map(VectorTable::new);
        self.tools.iter_mut().for_each(|tool| tool.sum = Vec::new());
        let texts = self.by_last_use.values().filter(|query_id| {
            self.queries.get(**query_id).is_some_and(|query| query.text.is_some())
        });
        self.without_vector = texts.map(|query_id| (*query_id, None)).collect();
    }

    pub(super) fn erase(&mut self, what: Erase<'_>) -> usize {
        let before = self.keys.len();
        let query_ids: Vec<QueryId> = match what {
            Erase::All => self.by_last_use.values().copied().collect(),
            Erase::Tenant(tenant) => self.owned_by(|owner| owner.tenant == *tenant),
            Erase::Principal(principal) => {
                let erased = Owner::of(principal, self.config.scope);
                self.owned_by(|owner| *owner == erased)
            }
            Erase::Tool(id) => {
                self.erase_tool(id);
                Vec::new()
            }
        };
        for query_id in query_ids {
            self.remove(query_id);
        }
        // Fit the models again, because they were also fitted to the erased queries.
        self.partitions
            .values_mut()
            .for_each(|partition| partition.new_calls = partition.new_calls.max(partition.len()));
        self.is_due = true;
        self.changes += 1;
        before - self.keys.len()
    }

    pub(super) fn stats(&self) -> HistoryStats {
        HistoryStats {
            queries: self.keys.len(),
            vectors: self.rows.as_ref().map_or(0, VectorTable::len),
            tools: self.tools.iter().count(),
            rankings: self.partitions.len(),
        }
    }

    /// Computes the lengths of the TF-IDF vectors of a partition's queries again.
    pub(super) fn update_lengths(&mut self, owner: &Owner) {
        let Some(partition) = self.partitions.get(owner) else { return };
        for query_id in partition.by_last_use.values() {
            if let Some(query) = self.queries.get(*query_id) {
                self.lengths[*query_id as usize] =
                    partition.length(&query.words, partition.len(), 0);
            }
        }
    }

    fn insert(&mut self, new_query: &NewQuery<'_>) -> QueryId {
        self.next += 1;
        let text = match self.config.retention {
            Retention::Text => new_query.text.map(|text| truncate(text, MAX_TEXT_BYTES).into()),
            Retention::Vector | Retention::Words => None,
        };
        let query = StoredQuery {
            owner: new_query.owner.clone(),
            key: new_query.key,
            text,
            words: new_query.words.clone().into(),
            calls: Vec::new(),
            last_use: self.next,
            last_used_at: new_query.now,
        };
        let partition = self.partitions.entry(new_query.owner.clone()).or_default();
        let query_id = self.queries.next();
        partition.insert(query_id, &query);
        self.lengths.resize(self.queries.len(), 1.0);
        self.lengths[query_id as usize] = partition.length(&query.words, partition.len(), 0);
        self.keys.insert(query.key, query_id);
        self.by_last_use.insert(query.last_use, query_id);
        let is_vector_only = self.rows.is_some() && self.config.retention == Retention::Vector;
        if query.text.is_some() {
            self.without_vector.insert(query_id, None);
        } else if let (true, Some(text), None) = (is_vector_only, new_query.text, &new_query.vector)
        {
            let text = truncate(text, MAX_TEXT_BYTES).into();
            self.without_vector.insert(query_id, Some(text));
        }
        self.queries.put(query_id, query);
        if let Some(vector) = &new_query.vector
            && self.config.retention != Retention::Words
        {
            self.set_vector(query_id, vector);
        }
        query_id
    }

    fn mark_used(&mut self, owner: &Owner, query_id: QueryId, now: u64) {
        self.next += 1;
        let Some(query) = self.queries.get_mut(query_id) else { return };
        if let Some(partition) = self.partitions.get_mut(owner) {
            partition.set_last_use(query_id, query, self.next);
        }
        self.by_last_use.remove(&query.last_use);
        self.by_last_use.insert(self.next, query_id);
        (query.last_use, query.last_used_at) = (self.next, now.max(query.last_used_at));
        if let Some(changed) = &mut self.changed {
            changed.insert(query.key);
        }
    }

    fn mark_recent(&mut self, owner: &Owner) {
        let recent = self.recent.entry(owner.tenant.clone()).or_default();
        recent.retain(|subject| *subject != owner.subject);
        recent.insert(0, owner.subject.clone());
        // Keep one more than [`MAX_OTHERS`], because the list also contains the owner itself.
        recent.truncate(MAX_OTHERS + 1);
    }

    fn forget_recent(&mut self, owner: &Owner) {
        let Some(recent) = self.recent.get_mut(&owner.tenant) else { return };
        recent.retain(|subject| *subject != owner.subject);
        if recent.is_empty() {
            self.recent.remove(&owner.tenant);
        }
    }

    fn add_call(&mut self, owner: &Owner, query_id: QueryId, id: &str, times: u32) {
        let tool = self.tool(owner, id);
        let Some(query) = self.queries.get_mut(query_id) else { return };
        let added = if let Some(call) = query.calls.iter_mut().find(|call| call.tool == tool) {
            let before = call.weight();
            call.count = call.count.saturating_add(times);
            call.weight() - before
        } else {
            if query.calls.len() >= MAX_TOOLS_PER_QUERY {
                let rarest = query.calls.iter().min_by_key(|call| call.count).copied();
                if let Some(call) = rarest {
                    self.remove_call(owner, query_id, call);
                }
            }
            let Some(query) = self.queries.get_mut(query_id) else { return };
            let call = ToolCalls { tool, count: times };
            query.calls.push(call);
            if let Some(used) = self.tools.get_mut(tool) {
                used.query_ids.push(query_id);
            }
            call.weight()
        };
        self.add_weight(owner, query_id, tool, added);
        self.enforce_tool_bound(owner, tool);
    }

    /// Removes a tool from a query, and the tool itself if no query has it any more.
    fn remove_call(&mut self, owner: &Owner, query_id: QueryId, call: ToolCalls) {
        self.add_weight(owner, query_id, call.tool, -call.weight());
        let Some(query) = self.queries.get_mut(query_id) else { return };
        query.calls.retain(|known| known.tool != call.tool);
        let Some(used) = self.tools.get_mut(call.tool) else { return };
        used.query_ids.retain(|known| *known != query_id);
        if !used.query_ids.is_empty() {
            return;
        }
        if let Some(used) = self.tools.take(call.tool)
            && let Some(partition) = self.partitions.get_mut(owner)
        {
            partition.names.remove(&used.id);
            partition.tools.clear(call.tool);
        }
        if let Some(centres) = &mut self.centres {
            centres.clear(call.tool);
        }
    }

    /// Adds to the weights of a tool for a query: to its total weight, to its weight for each word of the query, and to
    /// its sum of vectors.
    fn add_weight(&mut self, owner: &Owner, query_id: QueryId, tool: u32, added: f32) {
        let Some(query) = self.queries.get(query_id) else { return };
        if let Some(partition) = self.partitions.get_mut(owner) {
            partition.count(&query.words, tool, added);
        }
        self.weights[tool as usize] += added;
        self.add_to_sum(query_id, tool, added);
    }

    fn add_to_sum(&mut self, query_id: QueryId, tool: u32, added: f32) {
        // Add the rounded vector from the table, so that exactly the same amount can be subtracted later.
        let Some(vector) = self.rows.as_ref().and_then(|rows| rows.vector(query_id)) else {
            return;
        };
        let Some(used) = self.tools.get_mut(tool) else { return };
        used.add(&vector, added);
        if let Some(centres) = &mut self.centres {
            centres.set(tool, &used.sum);
        }
    }

    fn tool(&mut self, owner: &Owner, id: &str) -> u32 {
        let partition = self.partitions.entry(owner.clone()).or_default();
        if let Some(tool) = partition.names.get(id) {
            return *tool;
        }
        let id: Arc<str> = id.into();
        let tool = self.tools.next();
        partition.names.insert(Arc::clone(&id), tool);
        partition.tools.set(tool);
        self.tools.put(tool, ToolUse::new(id));
        self.weights.resize(self.tools.len(), 0.0);
        self.weights[tool as usize] = 0.0;
        tool
    }

    /// If an owner has too many queries for a tool, removes the tool from the least recently used of them. Removes this
    /// query if it has no other tool.
    fn enforce_tool_bound(&mut self, owner: &Owner, tool: u32) {
        let Some(query_ids) = self.tools.get(tool).map(|used| &used.query_ids) else { return };
        if query_ids.len() <= self.config.max_queries_per_tool {
            return;
        }
        let last_use =
            |query_id: &QueryId| self.queries.get(*query_id).map_or(0, |query| query.last_use);
        let Some(oldest) = query_ids.iter().copied().min_by_key(last_use) else { return };
        let call = self
            .queries
            .get(oldest)
            .and_then(|query| query.calls.iter().find(|call| call.tool == tool).copied());
        if let Some(call) = call {
            self.remove_call(owner, oldest, call);
        }
        self.changed_at(oldest);
        if self.queries.get(oldest).is_some_and(|query| query.calls.is_empty()) {
            self.remove(oldest);
        }
    }

    fn enforce_bounds(&mut self, owner: &Owner) {
        let HistoryConfig { max_queries, max_queries_per_ranking, .. } = self.config;
        if let Some(partition) = self.partitions.get(owner)
            && partition.len() > max_queries_per_ranking
            && let Some((_, query_id)) = partition.by_last_use.first_key_value()
        {
            self.remove(*query_id);
        }
        if self.by_last_use.len() > max_queries
            && let Some((_, query_id)) = self.by_last_use.first_key_value()
        {
            self.remove(*query_id);
        }
    }

    fn remove_expired(&mut self, now: u64) {
        let oldest = now.saturating_sub(self.config.forget_after.as_secs());
        while let Some((_, query_id)) = self.by_last_use.first_key_value()
            && let query_id = *query_id
            && self.queries.get(query_id).is_none_or(|query| query.last_used_at < oldest)
        {
            self.remove(query_id);
        }
    }

    fn remove(&mut self, query_id: QueryId) {
        let Some(query) = self.queries.get(query_id) else {
            self.by_last_use.retain(|_, known| *known != query_id);
            return;
        };
        let owner = query.owner.clone();
        for call in query.calls.clone() {
            self.remove_call(&owner, query_id, call);
        }
        self.changed_at(query_id);
        let Some(query) = self.queries.take(query_id) else { return };
        self.keys.remove(&query.key);
        self.by_last_use.remove(&query.last_use);
        self.without_vector.remove(&query_id);
        if let Some(rows) = &mut self.rows {
            rows.clear(query_id);
        }
        if let Some(partition) = self.partitions.get_mut(&owner) {
            partition.remove(query_id, &query);
            if partition.len() == 0 {
                self.partitions.remove(&owner);
                self.forget_recent(&owner);
            }
        }
    }

    fn erase_tool(&mut self, id: &str) {
        let tools: Vec<_> =
            self.partitions.values().filter_map(|partition| partition.names.get(id)).collect();
        let tools: Vec<u32> = tools.into_iter().copied().collect();
        for tool in tools {
            let Some(used) = self.tools.get(tool) else { continue };
            let query_ids = used.query_ids.clone();
            for query_id in query_ids {
                let Some(query) = self.queries.get(query_id) else { continue };
                let owner = query.owner.clone();
                let call = query.calls.iter().find(|call| call.tool == tool).copied();
                if let Some(call) = call {
                    self.remove_call(&owner, query_id, call);
                }
                self.changed_at(query_id);
                if self.queries.get(query_id).is_some_and(|query| query.calls.is_empty()) {
                    self.remove(query_id);
                }
            }
        }
    }

    fn owned_by(&self, is_meant: impl Fn(&Owner) -> bool) -> Vec<QueryId> {
        let queries = self.by_last_use.values().filter(|query_id| {
            self.queries.get(**query_id).is_some_and(|query| is_meant(&query.owner))
        });
        queries.copied().collect()
    }

    fn changed_at(&mut self, query_id: QueryId) {
        if let (Some(changed), Some(query)) = (&mut self.changed, self.queries.get(query_id)) {
            changed.insert(query.key);
        }
    }
}

impl<T> Slab<T> {
    fn new() -> Self {
        Self { values: Vec::new(), free: Vec::new() }
    }

    /// Returns a free number.
    fn next(&mut self) -> u32 {
        if let Some(free) = self.free.pop() {
            return free;
        }
        self.values.push(None);
        u32::try_from(self.values.len() - 1).expect("the bounds are far below 2^32")
    }

    fn put(&mut self, at: u32, value: T) {
        if let Some(query_id) = self.values.get_mut(at as usize) {
            *query_id = Some(value);
        }
    }

    fn take(&mut self, at: u32) -> Option<T> {
        let value = self.values.get_mut(at as usize)?.take()?;
        self.free.push(at);
        Some(value)
    }

    pub(super) fn get(&self, at: u32) -> Option<&T> {
        self.values.get(at as usize)?.as_ref()
    }

    fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.values.get_mut(at as usize)?.as_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.values.iter().flatten()
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.values.iter_mut().flatten()
    }

    /// Returns a number that is greater than every number in use; lists that are indexed by these numbers need this
    /// length.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }
}
