//! The handle of a history of queries and calls.

use std::collections::BTreeSet;
use std::collections::hash_map::Entry;
use std::future::ready;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;
use std::{fmt, mem};

use mgp_types::service::{BoxFuture, Principal};
use mgp_types::store::StoreError;
use mgp_types::sync::{Mutex, RwLock};
use rustc_hash::FxHashMap;

use super::config::{Erase, HistoryConfig, HistoryStats, Retention, UseOutcome};
#[cfg(feature = "sqlite")]
use super::database::HistoryDatabase;
use super::features::Lookup;
use super::model::Model;
use super::partition::Partition;
use super::pending::PendingSearches;
use super::query::{HashKey, MAX_TEXT_BYTES, Owner, QueryId};
use super::table::{HistoryTable, NewQuery};
use super::unmet::{UnmetSearch, UnmetSearches};
use crate::embed::{Cost, EmbedError, Embedder};
use crate::lexicon::to_english;
use crate::text::{Analyzer, QueryWords, truncate};

/// The maximum number of stored queries to which a model is fitted.
const MAX_EXAMPLES: usize = 256;

/// A tool is ranked higher only if the probability of its call is at least this number.
const MIN_SHARE: f32 = 1e-3;

/// A history of queries and the tools that were called after them, which improves later searches.
///
/// A history has an effect only as part of an index. By default its data is lost when the process ends; with the
/// feature `sqlite`, `History::open` stores it in a database.
///
/// ```
/// use mgp_toolindex::{Erase, History, UseOutcome};
/// use mgp_types::service::Principal;
///
/// let history = History::new();
/// let me = Principal::local();
/// history.record_search(&me, "session 1", "what will it be like outside", ["weather.forecast", "mail.send"]);
/// history.record_call(&me, "session 1", "weather.forecast", UseOutcome::Answered);
/// assert_eq!(history.stats().queries, 1);
///
/// drop(history.erase(Erase::Principal(&me)));
/// assert_eq!(history.stats().queries, 0);
/// ```
#[derive(Clone)]
pub struct History(pub(super) Arc<HistoryState>);

pub(super) struct HistoryState {
    pub(super) table: RwLock<HistoryTable>,
    pending: Mutex<PendingSearches>,
    pub(super) unmet: Mutex<UnmetSearches>,
    analyzer: Analyzer,
    embedder: RwLock<Option<Arc<dyn Embedder>>>,
    pub(super) secret: HashKey,
    /// `true` while a task for background work is running, or is about to run.
    is_settling: AtomicBool,
    /// A lock that is held while background work runs. A second caller of [`History::settle`] waits for it, and then
    /// finds that the work is done.
    settling: Mutex<()>,
    #[cfg(feature = "sqlite")]
    pub(super) database: Option<HistoryDatabase>,
}

/// A tool that is ranked higher because of past calls.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lift {
    /// The tool's id, as passed to [`History::record_call`].
    pub(crate) tool: Arc<str>,
    /// The probability that the tool is called, 0 to 1.
    pub(crate) share: f32,
    /// The amount that is added to the tool's score, if the best score of the ranking is 1.
    pub(crate) amount: f32,
    /// The similarity of the query and the most similar past query, up to 1.
    pub(crate) nearest: f32,
}

impl History {
    /// Creates an empty history with the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::with_config(HistoryConfig::default())
    }

    /// Creates an empty history.
    #[must_use]
    pub fn with_config(config: HistoryConfig) -> Self {
        // Use no secret key, because the hashes of this history never leave the process.
        Self::from_state(HistoryState::new(HistoryTable::new(config), HashKey([0; 32])))
    }

    pub(super) fn from_state(state: HistoryState) -> Self {
        Self(Arc::new(state))
    }

    /// Records a search with the tools that it found. A later call of one of these tools is assigned to the search.
    ///
    /// The search is remembered for ten minutes, and at most eight searches for each session.
    pub fn record_search<T: AsRef<str>>(
        &self,
        principal: &Principal,
        session: impl Hash,
        query: &str,
        found: impl IntoIterator<Item = T>,
    ) {
        let query = truncate(query.trim(), MAX_TEXT_BYTES);
        if query.is_empty() {
            return;
        }
        let (owner, mut found) = (self.owner(principal), found.into_iter().peekable());
        // Store the text of the search only if the options permit the texts of queries.
        if self.retention() == Retention::Text {
            self.0.unmet.lock().add(&owner, query, found.peek().is_some(), seconds_now());
        }
        self.0.pending.lock().insert(&owner, session, query, found);
        #[cfg(feature = "sqlite")]
        self.write_soon();
    }

    /// Returns the searches of a principal that found nothing, or after which no found tool was called, newest first.
    #[must_use]
    pub fn unmet(&self, principal: &Principal) -> Vec<UnmetSearch> {
        self.0.unmet.lock().of(&self.owner(principal))
    }

    /// Returns the ids of a server's tools that were called after a stored query. Includes queries in the database that
    /// the history does not use, e.g. because of its scope.
    ///
    /// `is_server` returns whether an id belongs to a server. Ids of servers can contain dots, so a tool's id can begin
    /// with the ids of several servers. The tool then belongs to the server with the longest of these ids.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the database cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    #[cfg_attr(
        not(feature = "sqlite"),
        expect(clippy::unused_async, reason = "only a database is waited for")
    )]
    pub async fn called_tools(
        &self,
        server: &str,
        is_server: impl Fn(&str) -> bool,
    ) -> Result<Vec<String>, StoreError> {
        let is_own = |id: &str| {
            let mut longer = id.match_indices('.').filter(|(end, _)| *end > server.len());
            id.strip_prefix(server).is_some_and(|rest| rest.starts_with('.'))
                && !longer.any(|(end, _)| is_server(&id[..end]))
        };
        // Use a set, because the table has a separate entry of a tool for each owner who called it.
        let mut ids: BTreeSet<String> = {
            let table = self.0.table.read();
            table.tools.iter().map(|called| called.id.to_string()).collect()
        };
        #[cfg(feature = "sqlite")]
        if let Some(database) = &self.0.database {
            ids.extend(database.called_tools().await?);
        }
        ids.retain(|id| is_own(id));
        Ok(ids.into_iter().collect())
    }

    /// Records a call. The newest search of the session that found the tool is stored together with the call.
    ///
    /// The history does not learn from failed calls, or from calls of tools that no search found.
    pub fn record_call(
        &self,
        principal: &Principal,
        session: impl Hash,
        tool: &str,
        outcome: UseOutcome,
    ) {
        if outcome == UseOutcome::Failed {
            return;
        }
        let owner = self.owner(principal);
        let followed = self.0.pending.lock().take(&owner, session, tool);
        if let Some((query, is_first)) = followed {
            if is_first {
                self.0.unmet.lock().met(&owner, &query);
            }
            self.record(principal, &query, tool);
        }
    }

    /// Stores that a tool was called after a query, even if no search was recorded.
    pub fn record(&self, principal: &Principal, query: &str, tool: &str) {
        self.record_at(principal, query, tool, seconds_now());
        self.start_due_work();
    }

    fn owner(&self, principal: &Principal) -> Owner {
        Owner::of(principal, self.0.table.read().config.scope)
    }

    pub(super) fn record_at(&self, principal: &Principal, query: &str, tool: &str, now: u64) {
        let query = truncate(query.trim(), MAX_TEXT_BYTES);
        let owner = self.owner(principal);
        let key = self.0.secret.key(&owner, query);
        let is_known = self.0.table.read().contains(key);
        let english = to_english(query);
        let words = self.0.secret.words(&self.0.analyzer.query(&english));
        let embedder = self.0.embedder().filter(|embedder| {
            !is_known && embedder.cost() == Cost::Small && self.retention() != Retention::Words
        });
        let vector = embedder.and_then(|embedder| embedder.embed(&english).ok());
        let new_query = NewQuery { owner, key, text: Some(query), words, vector, now };
        if !is_known && new_query.words.is_empty() && new_query.vector.is_none() {
            return;
        }
        self.0.table.write().record(&new_query, tool, 1);
    }

    /// Erases data, and returns the number of erased queries. The data is removed from memory when the function
    /// returns. When the future is ready, it is also removed and overwritten in the database, if the history has one.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the database cannot be written; then some of the data might remain there.
    ///
    /// # Cancel safety
    /// The request to the database is sent before the function returns; dropping the future only discards the result.
    #[must_use = "the future has the result of the database"]
    pub fn erase(&self, what: Erase<'_>) -> BoxFuture<'static, Result<usize, StoreError>> {
        {
            let scope = self.0.table.read().config.scope;
            let (mut pending, mut unmet) = (self.0.pending.lock(), self.0.unmet.lock());
            match what {
                Erase::All => {
                    pending.remove(|_| true);
                    unmet.remove(|_, _| true);
                }
                Erase::Tenant(tenant) => {
                    pending.remove(|owner| owner.tenant == *tenant);
                    unmet.remove(|of, _| *of == *tenant.as_str());
                }
                Erase::Principal(principal) => {
                    let erased = Owner::of(principal, scope);
                    pending.remove(|owner| *owner == erased);
                    let (tenant, subject) = (erased.tenant.as_str(), erased.subject.as_str());
                    unmet.remove(|of, by| *of == *tenant && *by == *subject);
                }
                Erase::Tool(tool) => pending.remove_tool(tool),
            }
        }
        #[cfg(feature = "sqlite")]
        if let Some(database) = &self.0.database {
            let erased = database.erase(&self.0.table, what);
            self.start_due_work();
            return erased;
        }
        let erased = self.0.table.write().erase(what);
        self.start_due_work();
        Box::pin(ready(Ok(erased)))
    }

    /// Returns the size of the history.
    #[must_use]
    pub fn stats(&self) -> HistoryStats {
        self.0.table.read().stats()
    }

    /// Runs pending background work now, on this thread: computes missing vectors, and fits the models to the stored
    /// queries. This takes some ten milliseconds, plus the time of the embedder.
    pub fn settle(&self) {
        let _guard = self.0.settling.lock();
        self.embed_missing();
        let owners: Vec<Owner> = {
            let mut table = self.0.table.write();
            table.is_due = false;
            let waiting = table.partitions.iter().filter(|(_, partition)| partition.new_calls > 0);
            waiting.map(|(owner, _)| owner.clone()).collect()
        };
        for owner in &owners {
            self.fit(owner);
        }
    }

    /// Sets the embedder, which must be the one that the index uses for queries.
    pub(crate) fn set_embedder(&self, embedder: Option<Arc<dyn Embedder>>) {
        let dimensions = embedder.as_ref().map(|embedder| embedder.dimensions());
        {
            let mut table = self.0.table.write();
            let mut known = self.0.embedder.write();
            let model =
                |of: &Option<Arc<dyn Embedder>>| of.as_ref().map(|of| of.model().to_owned());
            if model(&known) != model(&embedder) {
                // Drop the vectors, because vectors of different models cannot be compared.
                table.set_dimensions(None);
            }
            let has_vectors = table.config.retention != Retention::Words;
            table.set_dimensions(dimensions.filter(|_| has_vectors));
            *known = embedder;
            // Restore stored vectors while the lock is held, so that background work does not compute them again.
            #[cfg(feature = "sqlite")]
            if let (Some(database), Some(embedder)) = (&self.0.database, &*known) {
                database.restore_vectors(&mut table, embedder.model());
            }
        }
        self.start_due_work();
    }

    /// Returns the tools that are ranked higher for a query because of past calls, the most probable first.
    pub(crate) fn lifts(
        &self,
        principal: &Principal,
        words: &QueryWords,
        vector: Option<&[f32]>,
    ) -> Vec<Lift> {
        let table = self.0.table.read();
        let owner = Owner::of(principal, table.config.scope);
        let words = self.0.secret.words(words);
        let fits = |vector: &&[f32]| {
            table.rows.as_ref().is_some_and(|rows| rows.dimensions() == vector.len())
        };
        let lookup = Lookup { words: &words, vector: vector.filter(fits), exclude: None };
        let own = table.partitions.get(&owner).map(|own| lifts_of(&table, own, lookup));
        let mut lifts = own.unwrap_or_default();
        for shared in agreed(table.others(&owner).map(|other| lifts_of(&table, other, lookup))) {
            match lifts.iter_mut().find(|lift| lift.tool == shared.tool) {
                Some(lift) if lift.amount < shared.amount => *lift = shared,
                Some(_) => {}
                None => lifts.push(shared),
            }
        }
        lifts.sort_by(|left, right| {
            right.share.total_cmp(&left.share).then_with(|| left.tool.cmp(&right.tool))
        });
        lifts
    }

    /// Returns `true` if this principal called the tool after a stored query.
    pub(crate) fn is_called(&self, principal: &Principal, tool: &str) -> bool {
        let table = self.0.table.read();
        let owner = Owner::of(principal, table.config.scope);
        table.partitions.get(&owner).is_some_and(|own| own.names.contains_key(tool))
    }

    fn retention(&self) -> Retention {
        self.0.table.read().config.retention
    }

    /// Starts pending background work: on another thread if there is a runtime, otherwise on this thread.
    pub(super) fn start_due_work(&self) {
        #[cfg(feature = "sqlite")]
        self.write_soon();
        if !self.is_due() || self.0.is_settling.swap(true, Ordering::AcqRel) {
            return;
        }
        let this = self.clone();
        let settle = move || {
            let before = this.0.table.read().changes;
            {
                let _guard = FlagGuard(&this.0.is_settling);
                this.settle();
            }
            // Write the newly computed vectors to the database.
            #[cfg(feature = "sqlite")]
            this.write_soon();
            // Compare only after the flag `is_settling` is cleared, so that changes during the work are not missed.
            let is_changed = this.0.table.read().changes != before;
            if is_changed {
                this.start_due_work();
            }
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(settle)),
            Err(_) => settle(),
        }
    }

    fn is_due(&self) -> bool {
        let table = self.0.table.read();
        table.is_due || table.without_vector(None).is_some()
    }

    fn embed_missing(&self) {
        let Some(embedder) = self.0.embedder() else { return };
        let (mut after, mut is_logged) = (None, false);
        loop {
            let next = {
                let table = self.0.table.read();
                table.without_vector(after).and_then(|query_id| {
                    let (key, text) = table.text_to_embed(query_id)?;
                    Some((query_id, key, text))
                })
            };
            let Some((query_id, key, text)) = next else { return };
            after = Some(query_id);
            let vector = match embedder.embed(&to_english(&text)) {
                Ok(vector) => Some(vector),
                Err(EmbedError::Unavailable { .. }) => {
                    self.0.table.write().drop_kept_texts();
                    return;
                }
                Err(error) => {
                    // Log only one failure, because a faulty encoder fails for each of many queries.
                    if !mem::replace(&mut is_logged, true) {
                        tracing::warn!(%error, "embedding failed; past queries are compared by their words only");
                    }
                    None
                }
            };
            let mut table = self.0.table.write();
            // Drop the vector if another embedder was set meanwhile. Its vectors cannot be compared with this vector,
            // even if they have the same length.
            if self.0.embedder().is_none_or(|now| now.model() != embedder.model()) {
                return;
            }
            // Check the key: the query may have been removed meanwhile, and its number assigned to another query.
            if table.queries.get(query_id).is_some_and(|query| query.key == key) {
                match vector {
                    Some(vector) => table.set_vector(query_id, &vector),
                    None => table.leave_without_vector(query_id),
                }
            }
        }
    }

    /// Fits the owner's model to at most [`MAX_EXAMPLES`] stored queries of the owner. Each query is looked up in the
    /// history without its own entry, as if it were new.
    fn fit(&self, owner: &Owner) {
        let query_ids: Vec<QueryId> = {
            let mut table = self.0.table.write();
            table.update_lengths(owner);
            let Some(partition) = table.partitions.get_mut(owner) else { return };
            partition.new_calls = 0;
            let every = partition.len().div_ceil(MAX_EXAMPLES).max(1);
            partition.by_last_use.values().copied().step_by(every).collect()
        };
        // Release the lock after each query, so that searches need not wait until all queries are processed.
        let examples: Vec<_> = query_ids
            .iter()
            .filter_map(|query_id| {
                let table = self.0.table.read();
                let partition = table.partitions.get(owner)?;
                if partition.query_ids.contains(*query_id) {
                    table.example(partition, *query_id)
                } else {
                    None
                }
            })
            .collect();
        let model = Model::fit(&examples);
        if let Some(partition) = self.0.table.write().partitions.get_mut(owner) {
            partition.model = model;
        }
    }
}

/// Returns the time in seconds since 1970.
fn seconds_now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

/// Returns the tools that are ranked higher because of one owner's past calls.
fn lifts_of(table: &HistoryTable, partition: &Partition, lookup: Lookup<'_>) -> Vec<Lift> {
    let ranked = table.features(partition, lookup);
    let (shares, none) = partition.model.shares(&ranked.features);
    let shares = ranked.tools.iter().zip(shares).filter(|(_, share)| *share >= MIN_SHARE);
    let lifts = shares.filter_map(|(tool, share)| {
        let tool = Arc::clone(&table.tools.get(*tool)?.id);
        let (amount, nearest) = (partition.model.lift(share, none), ranked.features.nearest);
        Some(Lift { tool, share, amount, nearest })
    });
    lifts.collect()
}

/// Returns the tools that the past calls of at least two owners raise in the ranking. Each tool is raised by the second
/// greatest of the owners' amounts, so that no single owner decides the amount.
fn agreed(of_owners: impl Iterator<Item = Vec<Lift>>) -> Vec<Lift> {
    let mut by_tool: FxHashMap<Arc<str>, (Lift, Option<Lift>)> = FxHashMap::default();
    for lift in of_owners.flatten() {
        match by_tool.entry(Arc::clone(&lift.tool)) {
            Entry::Vacant(free) => drop(free.insert((lift, None))),
            Entry::Occupied(mut known) => {
                let (most, second) = known.get_mut();
                let less = if lift.amount > most.amount { mem::replace(most, lift) } else { lift };
                if second.as_ref().is_none_or(|second| second.amount < less.amount) {
                    *second = Some(less);
                }
            }
        }
    }
    by_tool.into_values().filter_map(|(_, second)| second).collect()
}

impl Default for History {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Show only numbers, because queries are private and must not be logged.
        f.debug_tuple("History").field(&self.stats()).finish()
    }
}

impl HistoryState {
    pub(super) fn new(table: HistoryTable, secret: HashKey) -> Self {
        Self {
            table: RwLock::new(table),
            pending: Mutex::default(),
            unmet: Mutex::default(),
            analyzer: Analyzer::new(),
            embedder: RwLock::new(None),
            secret,
            is_settling: AtomicBool::new(false),
            settling: Mutex::default(),
            #[cfg(feature = "sqlite")]
            database: None,
        }
    }

    pub(super) fn embedder(&self) -> Option<Arc<dyn Embedder>> {
        self.embedder.read().clone()
    }
}

/// A guard that clears a flag when it is dropped, even after a panic.
pub(super) struct FlagGuard<'a>(pub(super) &'a AtomicBool);

impl Drop for FlagGuard<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
