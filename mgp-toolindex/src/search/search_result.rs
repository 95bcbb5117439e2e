//! The result of a search (MGP §16.5).

use std::fmt;
use std::time::Duration;

use mgp_types::mgp::SearchStrategy;

use super::Query;
use super::weight::{MIN_WEAK_SCORE, WEAK_SHARE, weak_score};
use crate::catalog::IndexedTool;

/// The result of a search.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SearchResult {
    /// The tools, best first.
    pub hits: Vec<Hit>,
    /// The number of tools that pass the filter and that the caller is allowed to call, whether or not they match the
    /// query.
    pub total_available: usize,
    /// The strategy that was actually used.
    pub ran: SearchStrategy,
    /// The requested strategy, and the reason why the search used another strategy; `None` if the search used the
    /// requested strategy.
    pub fallback: Option<Fallback>,
    /// The number of tools that the caller is allowed to call.
    pub(crate) visible: usize,
    /// The texts of the requests, if the query has several.
    pub requests: Vec<String>,
    /// The number of bytes at the end of the query that were ignored because it is too long.
    pub unread: usize,
    /// The duration of the search.
    pub took: Duration,
    /// `true` if probably no tool does what the query requests; see [`SearchResult::check_fit`].
    pub(crate) is_weak: bool,
}

/// A tool that a search found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Hit {
    /// The tool that was found.
    pub tool: IndexedTool,
    /// The score, from 0 to 1. Hits are sorted by score, highest first.
    pub score: f32,
    /// The request that the tool fits best, as an index in [`SearchResult::requests`].
    pub request: Option<usize>,
    /// The reason why the tool was found, if the query asks for reasons.
    pub reason: Option<Reason>,
}

/// The reason why the search did not use the requested strategy.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Fallback {
    /// The strategy that the query requested.
    pub from: SearchStrategy,
    /// The reason for using another strategy.
    pub reason: FallbackReason,
}

/// A reason why a search used another strategy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FallbackReason {
    /// The index has no embedder, so the search used words only.
    NoEmbedder,
    /// The embedder failed on the query.
    EmbedderFailed(String),
    /// Fewer than half of the tools have a vector: the other vectors are still being computed, or the embedder failed.
    Embedding,
    /// The embedder knows no word of the query, so the query has no vector.
    NoMeaning,
    /// No tool contains a word of the query, so the search also tried similar words, with one or two different letters.
    NoWord,
    /// The query is empty, so the search listed tools by category.
    Browsing,
}

/// The reason why a tool was found.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Reason {
    /// Words of the query that occur in the tool.
    pub words: Vec<String>,
    /// The share of the query's words that occur in the tool, 0 to 1; rare words count more. The words are counted
    /// after translations and corrections, and without the words that exclude servers.
    pub coverage: f32,
    /// The cosine between the tool and the query, −1 to 1.
    pub meaning: Option<f32>,
    /// The clause of the query that fits the tool best.
    pub clause: Option<String>,
    /// The cosine between the server and the query.
    pub server: Option<f32>,
    /// The probability, 0 to 1, that the tool is called, according to past calls.
    pub history: Option<f32>,
    /// The factor that lowered the score, if the tool does something else than the query requests.
    pub action: Option<f32>,
    /// If set, the score was lowered because the description of the tool states that it is deprecated.
    pub is_deprecated: bool,
    /// If set, the query names the tool.
    pub is_named: bool,
}

impl SearchResult {
    /// Creates a result without hits.
    pub(crate) fn new(query: &Query, total_available: usize, visible: usize) -> Self {
        Self {
            hits: Vec::new(),
            total_available,
            visible,
            ran: query.strategy.clone().unwrap_or(SearchStrategy::Hybrid),
            fallback: None,
            requests: Vec::new(),
            unread: query.unread(),
            took: Duration::ZERO,
            is_weak: false,
        }
    }

    /// Determines whether the result is weak, i.e. whether probably no tool does what the query requests. From a weak
    /// result, removes the hits that fit much less than its best hit.
    ///
    /// Scores can be compared only if the search used words and meaning, or used words because the query has no known
    /// meaning. If the query has several requests, no hit is removed, because it can be the best hit for its request.
    pub(crate) fn check_fit(&mut self) {
        let is_comparable = match &self.fallback {
            Some(fallback) => {
                fallback.from == SearchStrategy::Hybrid
                    && fallback.reason == FallbackReason::NoMeaning
            }
            None => self.ran == SearchStrategy::Hybrid,
        };
        let best = self.hits.iter().map(|hit| hit.score).fold(0.0, f32::max);
        self.is_weak = is_comparable && self.total_available > 0 && best < weak_score(self.visible);
        if self.is_weak && self.requests.is_empty() {
            let least = best.min(MIN_WEAK_SCORE.max(WEAK_SHARE * best));
            self.hits.retain(|hit| hit.score >= least);
        }
    }
}

impl fmt::Display for FallbackReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoEmbedder => f.write_str("the index has no embedder"),
            Self::EmbedderFailed(why) => write!(f, "the query could not be embedded: {why}"),
            Self::Embedding => f.write_str("fewer than half of the tools have a vector yet"),
            Self::NoMeaning => f.write_str("the embedder knows nothing of the query"),
            Self::NoWord => f.write_str("no word of the query occurs in a tool"),
            Self::Browsing => f.write_str("the query has no words; the first tools are listed"),
        }
    }
}
