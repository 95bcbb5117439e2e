//! What a history keeps, how much of it, and for whom.
//!
//! Applies to: inbound.

use std::time::Duration;

use mgp_types::service::{Principal, TenantId};

/// What a history keeps, how much of it, and for whom.
///
/// Whatever the bounds say, what was used last stays and what was used longest ago goes.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[must_use]
pub struct HistoryConfig {
    /// Whose calls change whose ranking. [`Share::Subject`].
    pub share: Share,
    /// What is kept of a query. [`Keep::Text`].
    pub keep: Keep,
    /// Queries in all. 65,536.
    pub most: usize,
    /// Queries that one ranking learns from: a subject's, or a tenant's if that is shared. 10,000.
    pub most_each: usize,
    /// Queries that one subject has for one tool. 64.
    pub most_per_tool: usize,
    /// How long a query is remembered after its last call. 180 days.
    pub forget_after: Duration,
}

/// Whose calls change whose ranking. A tenant's never change another tenant's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Share {
    /// Each subject's own, through whichever agent it calls.
    #[default]
    Subject,
    /// All subjects of a tenant learn from each other; one of them has at most a quarter of the room.
    Tenant,
}

/// What is kept of a query, in memory and in the database alike.
///
/// Beside it there is always: tenant and subject, the ids of the tools, how often and when they were called last, and a
/// hash of the query that tells whether it was asked before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Keep {
    /// Its first 1,024 bytes, the hashes of its words, its vector.
    #[default]
    Text,
    /// The hashes of its words and its vector. A vector says roughly what a text was about.
    Vector,
    /// The hashes of its words.
    ///
    /// They are made with a key that lies in the same database: whoever has both can try words.
    Words,
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It was answered with a result.
    Answered,
    /// It failed, or its result says so: nothing is learned from it.
    Failed,
}

/// What is to be forgotten.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Erase<'a> {
    /// Everything.
    All,
    /// Every call of a tool, and the queries after which nothing else was called.
    Tool(&'a str),
    /// Everything of a principal's subject, whichever agent it acted through.
    Principal(&'a Principal),
    /// Everything of a tenant.
    Tenant(&'a TenantId),
}

/// How much is remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistoryStats {
    /// Queries.
    pub queries: usize,
    /// Queries with a vector.
    pub vectors: usize,
    /// Tools that were called after them.
    pub tools: usize,
    /// Rankings that learn apart from each other: subjects, or tenants.
    pub apart: usize,
}

impl Default for HistoryConfig {
    fn default() -> Self {
        Self {
            share: Share::default(),
            keep: Keep::default(),
            most: 65_536,
            most_each: 10_000,
            most_per_tool: 64,
            forget_after: Duration::from_hours(180 * 24),
        }
    }
}

impl HistoryConfig {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whose calls change whose ranking.
    pub fn share(mut self, share: Share) -> Self {
        self.share = share;
        self
    }

    /// What is kept of a query.
    pub fn keep(mut self, keep: Keep) -> Self {
        self.keep = keep;
        self
    }

    /// How many queries are kept: in all, and for one ranking.
    pub fn most(mut self, in_all: usize, each: usize) -> Self {
        (self.most, self.most_each) = (in_all.max(1), each.max(1));
        self
    }

    /// How many queries one subject has for one tool.
    pub fn most_per_tool(mut self, most: usize) -> Self {
        self.most_per_tool = most.max(1);
        self
    }

    /// How long a query is remembered after its last call.
    pub fn forget_after(mut self, time: Duration) -> Self {
        self.forget_after = time;
        self
    }
}
