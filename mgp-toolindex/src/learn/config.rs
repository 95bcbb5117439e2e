//! The options of a history.

use std::time::Duration;

use mgp_types::service::{Principal, TenantId};

/// The options of a history.
///
/// The least recently used queries are removed if a maximum is exceeded.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[must_use]
pub struct HistoryConfig {
    /// The subjects or agents from whose queries and calls a subject's searches learn. Default:
    /// [`HistoryScope::Subject`].
    pub scope: HistoryScope,
    /// The parts of a query that are stored. Default: [`Retention::Text`].
    pub retention: Retention,
    /// The maximum number of queries in total. Default: 65,536.
    pub max_queries: usize,
    /// The maximum number of queries of one subject; with [`HistoryScope::Agent`], of one agent of a subject. Default:
    /// 10,000.
    pub max_queries_per_ranking: usize,
    /// The maximum number of stored queries of one subject for the same called tool. Default: 64.
    pub max_queries_per_tool: usize,
    /// The time for which a query is stored after the last call that followed it. Default: 180 days.
    pub forget_after: Duration,
}

/// The subjects or agents from whose queries and calls a subject's searches learn. Tenants never learn from each other.
///
/// Data that was stored for single agents is used only with [`HistoryScope::Agent`]. After a change to another scope,
/// it stays in the database until it expires or is erased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HistoryScope {
    /// Each subject learns only from its own calls, through whichever agent it makes them.
    #[default]
    Subject,
    /// Each agent of each subject learns only from its own calls.
    Agent,
    /// Each subject learns from its own calls, and also from the sixteen other subjects of its tenant with the latest
    /// calls. Calls of other subjects raise a tool only if at least two of these subjects called it after similar
    /// queries, so a single subject never changes the results of others.
    Tenant,
}

/// The parts of a query that are stored, both in memory and in the database.
///
/// Other data is always stored: the tenant and the subject, the ids of the called tools, the number and the time of the
/// calls, and a hash that identifies the query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Retention {
    /// The first 1,024 bytes of the text, the hashes of the words, and the vector.
    #[default]
    Text,
    /// The hashes of the words, and the vector. A vector roughly reveals the meaning of a text. The text is only in
    /// memory, until its vector is computed.
    Vector,
    /// The hashes of the words.
    ///
    /// The key of the hashes is in the same database, so a person who can read the database can test whether a certain
    /// word occurs in it.
    Words,
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UseOutcome {
    /// The call succeeded; it is stored.
    Answered,
    /// The call failed, or its result is an error; the history does not learn from it.
    Failed,
}

/// The data that [`History::erase`](crate::History::erase) removes.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Erase<'a> {
    /// All data of the history.
    All,
    /// All calls of a tool, and the queries that were followed by no call of another tool.
    Tool(&'a str),
    /// All data of a principal's subject, whichever agent it used; with [`HistoryScope::Agent`], only the data of the
    /// principal's own agent.
    Principal(&'a Principal),
    /// All data of a tenant.
    Tenant(&'a TenantId),
}

/// The numbers of queries, vectors and tools in a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistoryStats {
    /// The number of queries.
    pub queries: usize,
    /// The number of queries with a vector.
    pub vectors: usize,
    /// The number of tools that were called.
    pub tools: usize,
    /// The number of rankings: one per subject, or with [`HistoryScope::Agent`] one per agent of a subject.
    pub rankings: usize,
}

impl Default for HistoryConfig {
    fn default() -> Self {
        Self {
            scope: HistoryScope::default(),
            retention: Retention::default(),
            max_queries: 65_536,
            max_queries_per_ranking: 10_000,
            max_queries_per_tool: 64,
            forget_after: Duration::from_hours(180 * 24),
        }
    }
}

impl HistoryConfig {
    /// Creates options with the default values.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the subjects or agents from whose queries and calls a subject's searches learn.
    pub fn scope(mut self, scope: HistoryScope) -> Self {
        self.scope = scope;
        self
    }

    /// Sets the parts of a query that are stored.
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// Sets the maximum number of queries in total (`in_all`), and of one subject or agent (`each`).
    pub fn max_queries(mut self, in_all: usize, each: usize) -> Self {
        (self.max_queries, self.max_queries_per_ranking) = (in_all.max(1), each.max(1));
        self
    }

    /// Sets the maximum number of stored queries of one subject for the same called tool.
    pub fn max_queries_per_tool(mut self, max: usize) -> Self {
        self.max_queries_per_tool = max.max(1);
        self
    }
}
