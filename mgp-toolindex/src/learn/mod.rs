//! Learning from calls: the knowledge which tool was called after which query improves later searches (MGP §16.4,
//! opt-in).
//!
//! A [`History`] stores queries and the tools that were called after them. For a new query, each of these tools gets a
//! share, which is the probability that it is called. The share is computed from three features: the nearest past
//! queries, the words of the tool's past queries, and their mean vector. The remaining share belongs to the alternative
//! *none of them*. The weights of the features are fitted to the history itself: each stored query is treated as new,
//! and the tools that were called after it should get the greatest shares. For an unfamiliar query, *none of them* gets
//! nearly the whole share, and the ranking does not change.
//!
//! `docs/tool-learning.md` describes what is stored, for how long, and how much it improves searches.

mod config;
#[cfg(feature = "sqlite")]
mod database;
mod features;
mod history;
mod model;
mod partition;
mod pending;
mod query;
mod softmax;
mod table;
#[cfg(test)]
mod tests;
mod unmet;

pub use config::{Erase, HistoryConfig, HistoryScope, HistoryStats, Retention, UseOutcome};
pub use history::History;
pub use unmet::UnmetSearch;
