//! Options of a history.

use std::time::Duration;

use mgp_types::service::{Principal, TenantId};

/// Options of a history.
///
/// Whenever a bound is exceeded, the least recently used queries are removed.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[must_use]
pub struct HistoryConfig {
    /// The subjects that learn from each other. Default: [`HistoryScope::Subject`].
    pub scope: HistoryScope,
    /// The stored parts of a query. Default: [`Retention::Text`].
    pub retention: Retention,
    /// The most queries in all. Default: 65,536.
    pub max_queries: usize,
    /// The most queries of one ranking: of a subject, or of a tenant if its subjects share. Default: 10,000.
    pub max_queries_per_ranking: usize,
    /// The most queries of one subject for one tool. Default: 64.
    pub max_queries_per_tool: usize,
    /// The time a query is stored after its last call. Default: 180 days.
    pub forget_after: Duration,
}

/// The subjects that learn from each other. Tenants never learn from each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HistoryScope {
    /// Each subject learns from itself, through any agent.
    #[default]
    Subject,
    /// All subjects of a tenant learn from each other; one subject has at most a quarter of the queries.
    Tenant,
}

/// The stored parts of a query, in memory and in the database alike.
///
/// Always stored: tenant and subject, the ids of the tools, the number and the time of their calls, and a hash that
/// identifies the query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Retention {
    /// The first 1,024 bytes, the hashes of the words, and the vector.
    #[default]
    Text,
    /// The hashes of the words, and the vector. A vector roughly reveals the meaning of a text.
    Vector,
    /// The hashes of the words.
    ///
    /// Their key is in the same database: a reader of the database can test words.
    Words,
}

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UseOutcome {
    /// The call returned a result.
    Answered,
    /// The call failed, or its result is an error: nothing is learned from it.
    Failed,
}

/// The data to erase.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Erase<'a> {
    /// All data.
    All,
    /// All calls of a tool, and the queries without another call.
    Tool(&'a str),
    /// All data of the subject of a principal, through any agent.
    Principal(&'a Principal),
    /// All data of a tenant.
    Tenant(&'a TenantId),
}

/// The size of a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistoryStats {
    /// Queries.
    pub queries: usize,
    /// Queries with a vector.
    pub vectors: usize,
    /// Tools that were called.
    pub tools: usize,
    /// Rankings that learn separately: subjects, or tenants.
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
    /// Returns the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the subjects that learn from each other.
    pub fn scope(mut self, scope: HistoryScope) -> Self {
        self.scope = scope;
        self
    }

    /// Sets the stored parts of a query.
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// Sets the most queries: in all, and of one ranking.
    pub fn max_queries(mut self, in_all: usize, each: usize) -> Self {
        (self.max_queries, self.max_queries_per_ranking) = (in_all.max(1), each.max(1));
        self
    }

    /// Sets the most queries of one subject for one tool.
    pub fn max_queries_per_tool(mut self, max: usize) -> Self {
        self.max_queries_per_tool = max.max(1);
        self
    }

    /// Sets the time a query is stored after its last call.
    pub fn forget_after(mut self, time: Duration) -> Self {
        self.forget_after = time;
        self
    }
}
