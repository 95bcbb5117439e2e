//! Usage learning: which tool was called after which query makes the next search better (MGP §16.4, opt-in).
//!
//! A [`History`] stores queries and the tools that were called after them.
//! For a new query each of those tools gets a share, the probability that it is called: by the nearest past queries, by
//! the words of the tool's past queries, and by their mean vector. The rest is the share of *none of them*.
//! The weights of these features are fitted to the history itself: every stored query is treated as new, and the tools
//! that were called after it should get the most. An unfamiliar query gives *none* nearly everything, and the ranking
//! does not change.
//!
//! `docs/tool-learning.md` describes what is stored, for how long, and what it gains.

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

pub use config::{Erase, HistoryConfig, HistoryScope, HistoryStats, Retention, UseOutcome};
pub use history::History;
