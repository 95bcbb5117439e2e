//! What is asked of the index (MGP §16.5).
//!
//! Applies to: inbound.

use mgp_types::mgp::SearchStrategy;
use mgp_types::service::Principal;

use super::Filter;
use super::question::LONGEST;
use crate::text::cut;

/// Whether each hit says why it was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Explain {
    /// It does not.
    #[default]
    No,
    /// It does; this takes a little longer.
    Yes,
}

/// A search: a text in any words, and what tools may be found.
///
/// ```
/// use mgp_toolindex::{Filter, Query};
///
/// let query = Query::new("read a file").most(3).filter(Filter::new().category("filesystem"));
/// assert_eq!((query.text(), query.how_many()), ("read a file", 3));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Query {
    pub(crate) text: String,
    pub(crate) strategy: Option<SearchStrategy>,
    pub(crate) most: usize,
    pub(crate) filter: Filter,
    pub(crate) explain: Explain,
    pub(crate) asker: Option<Principal>,
}

impl Query {
    /// How many tools are found if nobody says.
    pub const DEFAULT_MOST: usize = 5;
    /// How many tools are found at most.
    pub const CAP: usize = 50;

    /// Asks for what the text says; an empty text browses. Of a long one the first 4 KiB are read
    /// ([`Found::unread`](crate::Found::unread)).
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            strategy: None,
            most: Self::DEFAULT_MOST,
            filter: Filter::default(),
            explain: Explain::No,
            asker: None,
        }
    }

    /// Searches this way; without it words and meaning work together.
    pub fn strategy(mut self, strategy: SearchStrategy) -> Self {
        self.strategy = Some(strategy);
        self
    }

    /// Finds at most so many tools, from 1 to [`Query::CAP`].
    pub fn most(mut self, most: usize) -> Self {
        self.most = most.clamp(1, Self::CAP);
        self
    }

    /// Finds only what the filter lets through.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }

    /// Whether hits say why they were found.
    pub fn explain(mut self, explain: Explain) -> Self {
        self.explain = explain;
        self
    }

    /// Who asks: past calls that this one may learn from make the ranking better, where the index has a
    /// [`History`](crate::History). Without it no past call is looked at.
    pub fn asker(mut self, asker: &Principal) -> Self {
        self.asker = Some(asker.clone());
        self
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How many bytes at its end are not read, because it is too long.
    pub(crate) fn unread(&self) -> usize {
        self.text.len() - cut(&self.text, LONGEST).len()
    }

    /// How many tools are found at most.
    #[must_use]
    pub fn how_many(&self) -> usize {
        self.most
    }
}
