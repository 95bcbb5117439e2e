//! The query of a search, with its options (MGP §16.5).

use mgp_types::mgp::SearchStrategy;
use mgp_types::service::Principal;

use super::Filter;
use crate::text::truncate;

/// The maximum number of bytes that are read from a query; a longer text is probably a pasted document.
pub(crate) const MAX_QUERY_BYTES: usize = 4 * 1024;

/// Determines whether hits have a [`Reason`](crate::Reason).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Explain {
    /// Hits carry no reason.
    #[default]
    No,
    /// Hits have a reason, which takes a little longer.
    Yes,
}

/// A search query: the text and the options.
///
/// ```
/// use mgp_toolindex::{Filter, Query};
///
/// let query = Query::new("read a file").limit(3).filter(Filter::new().category("filesystem"));
/// assert_eq!((query.text(), query.max_hits()), ("read a file", 3));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Query {
    pub(crate) text: String,
    pub(crate) strategy: Option<SearchStrategy>,
    pub(crate) limit: usize,
    pub(crate) filter: Filter,
    pub(crate) explain: Explain,
    pub(crate) principal: Option<Principal>,
}

impl Query {
    /// The default limit on the number of tools.
    pub const DEFAULT_MOST: usize = 5;
    /// The highest limit on the number of tools that a query can set.
    pub const CAP: usize = 50;

    /// Creates a query with a text; an empty text lists tools without a search. Only the first 4 KiB are read
    /// ([`SearchResult::unread`](crate::SearchResult::unread)).
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            strategy: None,
            limit: Self::DEFAULT_MOST,
            filter: Filter::default(),
            explain: Explain::No,
            principal: None,
        }
    }

    /// Sets the strategy; the default combines words and meaning.
    pub fn strategy(mut self, strategy: SearchStrategy) -> Self {
        self.strategy = Some(strategy);
        self
    }

    /// Sets the maximum number of tools; values are clamped to the range from 1 to [`Query::CAP`].
    pub fn limit(mut self, most: usize) -> Self {
        self.limit = most.clamp(1, Self::CAP);
        self
    }

    /// Sets the filter that found tools must pass.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }

    /// Sets whether hits have a reason.
    pub fn explain(mut self, explain: Explain) -> Self {
        self.explain = explain;
        self
    }

    /// Sets the principal whose past calls improve the ranking, if the index has a [`History`](crate::History).
    /// Without a principal no past calls are used.
    pub fn principal(mut self, principal: &Principal) -> Self {
        self.principal = Some(principal.clone());
        self
    }

    /// Returns the text of the query.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the number of bytes at the end of the text that the search ignores.
    pub(crate) fn unread(&self) -> usize {
        self.text.len() - truncate(&self.text, MAX_QUERY_BYTES).len()
    }

    /// Returns the maximum number of tools.
    #[must_use]
    pub fn max_hits(&self) -> usize {
        self.limit
    }
}
