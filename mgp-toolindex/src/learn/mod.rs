//! Usage learning: which tool was called after which query makes the next search better (MGP §16.4, opt-in).
//!
//! A [`History`] remembers queries and the tools that were called after them.
//! For a new query each of those tools gets a share: how likely it is the one that will be called, by the nearest past
//! queries, by the words of the tool's past queries, and by their mean vector.
//! What remains is the share of *none of them*. How much each of these hints is worth is learned from the history
//! itself: every remembered query is asked again without itself, and the hints are weighed so that the tools that were
//! called get the most. A query that resembles nothing gives *none* nearly everything, and the ranking stays as it was.
//! With some fifty remembered texts the ranking itself is one of the hints: those queries are asked again, and what it
//! says and what past calls say are weighed by what was called.
//!
//! `docs/tool-learning.md` says what is kept, for how long, and what it is worth in figures.
//!
//! Applies to: inbound.

mod asks;
mod book;
mod config;
mod entry;
mod hints;
mod history;
mod model;
mod order;
#[cfg(feature = "sqlite")]
mod persist;
mod shelf;
mod softmax;
#[cfg(test)]
mod tests;

pub use config::{Erase, HistoryConfig, HistoryStats, Keep, Outcome, Share};
pub use history::History;
pub(crate) use model::OF_TOOL;
pub(crate) use order::{Again, OF_CANDIDATE, Order, Remembered, Standing};
pub(crate) use softmax::Choice;
