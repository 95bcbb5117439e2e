//! The queries and calls of one owner (a subject, or one agent of a subject), indexed by word and by tool.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::model::Model;
use super::query::{QueryId, StoredQuery, WordHash};
use crate::catalog::Bitmap;

/// The queries and calls of one owner, and the model that is fitted to them and ranks tools for this owner.
#[derive(Debug, Default)]
pub(super) struct Partition {
    pub(super) model: Model,
    /// The number of calls since the model was fitted.
    pub(super) new_calls: usize,
    pub(super) query_ids: Bitmap,
    /// The queries in the order of their last use; each key is the [`last_use`](StoredQuery::last_use) of its query.
    pub(super) by_last_use: BTreeMap<u64, QueryId>,
    pub(super) words: FxHashMap<WordHash, WordUse>,
    pub(super) names: FxHashMap<Arc<str>, u32>,
    /// The numbers of all tools that the owner called.
    pub(super) tools: Bitmap,
}

/// The past queries that contain a word, and the tools that were called after them.
#[derive(Debug, Default)]
pub(super) struct WordUse {
    /// The queries with the word.
    pub(super) query_ids: Vec<QueryId>,
    /// The tools called after these queries, with their weights.
    pub(super) tools: Vec<(u32, f32)>,
}

#[derive(Debug)]
pub(super) struct ToolUse {
    pub(super) id: Arc<str>,
    /// The sum of the vectors of the queries after which the tool was called, weighted by the calls.
    pub(super) sum: Vec<f32>,
    /// The queries after which the tool was called.
    pub(super) query_ids: Vec<QueryId>,
}

impl Partition {
    pub(super) fn len(&self) -> usize {
        self.by_last_use.len()
    }

    /// Returns the inverse document frequency of a word that is in `with` of `of` queries.
    #[expect(clippy::cast_precision_loss, reason = "there are at most some ten thousand")]
    pub(super) fn idf(of: usize, with: usize) -> f32 {
        let (of, with) = (of as f32, with.min(of) as f32);
        ((of - with + 0.5) / (with + 0.5)).ln_1p()
    }

    /// Returns the length of the TF-IDF vector of these words, among `of` queries. Each word counts as contained in
    /// `without` fewer queries than are stored, e.g. in one fewer to leave out the query itself.
    pub(super) fn length(&self, words: &[WordHash], of: usize, without: usize) -> f32 {
        let squares = words.iter().map(|word| {
            let with = self.words.get(word).map_or(0, |word| word.query_ids.len());
            Self::idf(of, with.saturating_sub(without)).powi(2)
        });
        squares.sum::<f32>().sqrt().max(f32::MIN_POSITIVE)
    }

    pub(super) fn insert(&mut self, query_id: QueryId, query: &StoredQuery) {
        self.query_ids.set(query_id);
        self.by_last_use.insert(query.last_use, query_id);
        for word in &query.words {
            self.words.entry(*word).or_default().query_ids.push(query_id);
        }
    }

    pub(super) fn remove(&mut self, query_id: QueryId, query: &StoredQuery) {
        self.query_ids.clear(query_id);
        self.by_last_use.remove(&query.last_use);
        for word in &query.words {
            let Some(of) = self.words.get_mut(word) else { continue };
            if let Some(at) = of.query_ids.iter().position(|known| *known == query_id) {
                of.query_ids.swap_remove(at);
            }
            if of.query_ids.is_empty() {
                self.words.remove(word);
            }
        }
    }

    pub(super) fn set_last_use(&mut self, query_id: QueryId, query: &StoredQuery, last_use: u64) {
        self.by_last_use.remove(&query.last_use);
        self.by_last_use.insert(last_use, query_id);
    }

    /// Adds `weight` to the weight of a tool for each of these words; a negative weight subtracts.
    pub(super) fn count(&mut self, words: &[WordHash], tool: u32, weight: f32) {
        for word in words {
            let Some(of) = self.words.get_mut(word) else { continue };
            match of.tools.iter().position(|(known, _)| *known == tool) {
                Some(at) => {
                    of.tools[at].1 += weight;
                    // Remove a very small weight, which is only a rounding error of earlier subtractions.
                    if of.tools[at].1 < 1e-3 {
                        of.tools.swap_remove(at);
                    }
                }
                None if weight > 0.0 => of.tools.push((tool, weight)),
                None => {}
            }
        }
    }
}

impl ToolUse {
    pub(super) fn new(id: Arc<str>) -> Self {
        Self { id, sum: Vec::new(), query_ids: Vec::new() }
    }

    /// Adds the vector of a query to the sum; a negative weight subtracts it.
    pub(super) fn add(&mut self, vector: &[f32], weight: f32) {
        if self.sum.len() != vector.len() {
            self.sum = vec![0.0; vector.len()];
        }
        self.sum.iter_mut().zip(vector).for_each(|(sum, number)| *sum += weight * number);
    }
}
