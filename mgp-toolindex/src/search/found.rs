//! What a search finds (MGP §16.5).
//!
//! Applies to: outbound.

use std::fmt;
use std::time::Duration;

use mgp_types::mgp::SearchStrategy;

use super::Query;
use crate::catalog::Listed;

/// The answer to a query.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Found {
    /// The tools, best first.
    pub hits: Vec<Hit>,
    /// How many tools pass the filter and may be called, found or not.
    pub total_available: usize,
    /// How they were searched.
    pub ran: SearchStrategy,
    /// Why not as was asked.
    pub fallback: Option<Fallback>,
    /// How many bytes at the end of the query were not read, because it is too long.
    pub unread: usize,
    /// How long it took.
    pub took: Duration,
}

/// A tool that was found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Hit {
    /// The tool.
    pub tool: Listed,
    /// How well it fits, 0 to 1; it falls along the list.
    pub score: f32,
    /// Why it was found, if that was asked.
    pub reason: Option<Reason>,
}

/// A search that ran another way than was asked.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Fallback {
    /// What was asked.
    pub from: SearchStrategy,
    /// Why it could not be.
    pub reason: FallbackReason,
}

/// Why a search ran another way.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FallbackReason {
    /// The index has no embedder.
    NoEmbedder,
    /// The embedder could not embed the query.
    EmbedderFailed(String),
    /// The vectors of the tools are still being made.
    Embedding,
    /// The embedder knows nothing of the query.
    NoMeaning,
    /// No word of the query occurs, so words one or two letters away were tried.
    NoWord,
    /// The query is empty, so tools are listed by category.
    Browsing,
}

/// Why a tool was found.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Reason {
    /// Words of the query that occur in it.
    pub words: Vec<String>,
    /// How near its meaning is to the query's, −1 to 1.
    pub meaning: Option<f32>,
    /// The part of the query that it fits best.
    pub clause: Option<String>,
    /// How near its server's meaning is to the query's.
    pub server: Option<f32>,
    /// How much past calls speak for it, 0 to 1.
    pub history: Option<f32>,
}

impl Found {
    pub(crate) fn new(hits: Vec<Hit>, ran: SearchStrategy, fallback: Option<Fallback>) -> Self {
        Self { hits, total_available: 0, ran, fallback, unread: 0, took: Duration::ZERO }
    }

    /// The answer of an index that nothing was put into.
    pub(crate) fn nothing(query: &Query) -> Self {
        let ran = query.strategy.clone().unwrap_or(SearchStrategy::Hybrid);
        Self::new(Vec::new(), ran, None)
    }
}

impl fmt::Display for FallbackReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoEmbedder => f.write_str("the index has no embedder"),
            Self::EmbedderFailed(why) => write!(f, "the query could not be embedded: {why}"),
            Self::Embedding => f.write_str("the vectors of the tools are still being made"),
            Self::NoMeaning => f.write_str("the embedder knows nothing of the query"),
            Self::NoWord => f.write_str("no word of the query occurs in a tool"),
            Self::Browsing => f.write_str("the query is empty"),
        }
    }
}
