//! Computes the features of tools for a query: from the most similar past queries, and from the words and the mean
//! vector of each tool's past queries.

use super::model::{Example, Features, TOOL_FEATURES};
use super::partition::Partition;
use super::query::{QueryId, StoredQuery, ToolCalls, WordHash};
use super::table::HistoryTable;

/// The maximum number of past queries that vote for tools; only the most similar queries vote.
const MAX_VOTERS: usize = 12;
/// The exponent of votes: the vote of a past query is its similarity to this power, so the most similar queries
/// dominate.
const VOTE_EXPONENT: i32 = 4;

/// The maximum number of past queries that are preselected by their words. The same number is preselected by their
/// vectors; then all preselected queries are compared exactly.
const MAX_CANDIDATES: usize = 40;

/// The maximum number of tools that past calls can suggest for one query.
const MAX_TOOLS: usize = 24;

/// The weight of the average queries that are added to each tool's past queries, so that a few real queries alone do
/// not decide.
const AVERAGE_QUERIES: f32 = 2.0;

/// The divisor that scales the feature of the words to about one.
const WORD_SCALE: f32 = 6.0;
/// The decay rate of the feature of the mean vectors. The similarity of the query to a tool's mean vector is compared
/// with its similarity to the best tool's mean vector; the feature decreases exponentially with the difference.
const MEAN_DECAY: f32 = 8.0;

/// A query that is looked up in the history, with the data by which it is compared with past queries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lookup<'a> {
    pub(super) words: &'a [WordHash],
    pub(super) vector: Option<&'a [f32]>,
    /// The stored query that is looked up, which must not count as its own history; `None` for a new query.
    pub(super) exclude: Option<(QueryId, &'a StoredQuery)>,
}

impl Lookup<'_> {
    /// Returns the weight that the excluded query adds to a tool; the caller must subtract it. Returns 0 if no query is
    /// excluded.
    fn own(&self, tool: u32) -> f32 {
        self.exclude.map_or(0.0, |(_, query)| query.weight_of(tool))
    }
}

/// Tools that past calls suggest, with their features.
#[derive(Clone, Debug, Default)]
pub(super) struct RankedTools {
    pub(super) tools: Vec<u32>,
    pub(super) features: Features,
}

/// The stored queries, and the tools called after them, that share words with a query.
struct WordMatches {
    /// For each stored query, the total weight of the words that it shares with the new query.
    shared: Vec<f32>,
    /// The stored queries that share a word with the new query.
    query_ids: Vec<QueryId>,
    length: f32,
    /// For each tool, a measure of how much more frequent the words of the new query are in its past queries than in
    /// all queries.
    tools: Vec<f32>,
}

impl HistoryTable {
    /// Returns the features of tools for a query; empty if no query is stored.
    pub(super) fn features(&self, partition: &Partition, lookup: Lookup<'_>) -> RankedTools {
        let of = partition.len().saturating_sub(usize::from(lookup.exclude.is_some()));
        if of == 0 {
            return RankedTools::default();
        }
        let by_word = self.by_word(partition, lookup, of);
        let near = self.nearest(partition, lookup, &by_word, of);
        let (votes, nearest) = self.votes(&near);
        let mut tools: Vec<u32> = votes.iter().map(|(tool, ..)| *tool).collect();
        let mut by_words: Vec<(u32, f32)> =
            (0..).zip(by_word.tools.iter().copied()).filter(|(_, lift)| *lift > 0.0).collect();
        keep_best(&mut by_words, MAX_TOOLS);
        tools.extend(by_words.iter().map(|(tool, _)| *tool));
        let most_words = by_words.first().map_or(0.0, |(_, lift)| *lift).max(f32::MIN_POSITIVE);
        if let (Some(centres), Some(vector)) = (&self.centres, lookup.vector) {
            let mut top = centres.top(&[vector], MAX_TOOLS, Some(&partition.tools));
            tools.extend(top.pop().unwrap_or_default().into_iter().map(|(tool, _)| tool));
        }
        tools.sort_unstable();
        tools.dedup();
        let mut rows: Vec<_> = tools
            .into_iter()
            .filter_map(|tool| {
                let own = lookup.own(tool);
                let weight = self.weights[tool as usize] - own;
                if weight < 1e-3 {
                    return None;
                }
                let (vote, near) = votes
                    .iter()
                    .find(|(known, ..)| *known == tool)
                    .map_or((0.0, 0.0), |(_, vote, near)| (*vote, *near));
                let words = by_word.tools.get(tool as usize).copied().unwrap_or(0.0);
                let mean = self.mean(lookup, tool, own);
                Some((
                    tool,
                    [vote, near, words / most_words, words / WORD_SCALE, mean, 0.0, weight],
                ))
            })
            .collect();
        let best = rows.iter().map(|(_, row)| row[4]).fold(f32::NEG_INFINITY, f32::max);
        for (_, row) in &mut rows {
            if lookup.vector.is_some() {
                row[5] = (MEAN_DECAY * (row[4] - best)).exp();
            }
            row[4] = row[4].max(0.0);
            row[6] = row[6].ln_1p();
        }
        let score = |row: &[f32; TOOL_FEATURES]| row[0] + row[2] + row[5];
        rows.sort_by(|(left_tool, left), (right_tool, right)| {
            score(right).total_cmp(&score(left)).then(left_tool.cmp(right_tool))
        });
        rows.truncate(MAX_TOOLS);
        let (tools, rows) = rows.into_iter().unzip();
        RankedTools { tools, features: Features { tools: rows, nearest } }
    }

    /// Returns the features for a stored query as if it were a new query, together with the tools that were called
    /// after it.
    pub(super) fn example(&self, partition: &Partition, query_id: QueryId) -> Option<Example> {
        let query = self.queries.get(query_id)?;
        let vector = self.rows.as_ref().and_then(|rows| rows.vector(query_id));
        let lookup = Lookup {
            words: &query.words,
            vector: vector.as_deref(),
            exclude: Some((query_id, query)),
        };
        let ranked = self.features(partition, lookup);
        let all: f32 = query.calls.iter().copied().map(ToolCalls::weight).sum();
        let called = ranked.tools.iter().map(|tool| query.weight_of(*tool) / all).collect();
        Some(Example { features: ranked.features, called })
    }

    fn by_word(&self, partition: &Partition, lookup: Lookup<'_>, of: usize) -> WordMatches {
        let mut found = WordMatches {
            shared: vec![0.0; self.queries.len()],
            query_ids: Vec::new(),
            length: 0.0,
            tools: vec![0.0; self.tools.len()],
        };
        let mut known = 0_u16;
        for word in lookup.words {
            let used = partition.words.get(word);
            let own = lookup.exclude.map(|(_, query)| query).filter(|query| query.has_word(*word));
            let with = used
                .map_or(0, |used| used.query_ids.len())
                .saturating_sub(usize::from(own.is_some()));
            let idf = Partition::idf(of, with).powi(2);
            found.length += idf;
            let Some(used) = used.filter(|_| with > 0) else { continue };
            known += 1;
            for query_id in &used.query_ids {
                let shared = &mut found.shared[*query_id as usize];
                if *shared == 0.0 {
                    found.query_ids.push(*query_id);
                }
                *shared += idf;
            }
            #[expect(clippy::cast_precision_loss, reason = "there are at most some ten thousand")]
            let usual = with as f32 / of as f32;
            for (tool, weight) in &used.tools {
                let own = own.map_or(0.0, |query| query.weight_of(*tool));
                let all = self.weights[*tool as usize] - lookup.own(*tool);
                let frequency = (weight - own + AVERAGE_QUERIES * usual) / (all + AVERAGE_QUERIES);
                if frequency > usual && all > 1e-3 {
                    found.tools[*tool as usize] += (frequency / usual).ln();
                }
            }
        }
        let scale = 1.0 / f32::from(known.max(1)).sqrt();
        found.tools.iter_mut().for_each(|lift| *lift *= scale);
        found.length = found.length.sqrt().max(f32::MIN_POSITIVE);
        found
    }

    /// Returns the most similar past queries, each with its similarity; words and vectors count equally.
    fn nearest(
        &self,
        partition: &Partition,
        lookup: Lookup<'_>,
        by_word: &WordMatches,
        of: usize,
    ) -> Vec<(QueryId, f32)> {
        let mut close: Vec<(QueryId, f32)> = by_word
            .query_ids
            .iter()
            .map(|query_id| {
                let at = *query_id as usize;
                (*query_id, by_word.shared[at] / self.lengths[at])
            })
            .collect();
        keep_best(&mut close, MAX_CANDIDATES);
        let mut query_ids: Vec<QueryId> = close.into_iter().map(|(query_id, _)| query_id).collect();
        let rows = self.rows.as_ref().zip(lookup.vector);
        if let Some((rows, vector)) = rows {
            let mut top = rows.top(&[vector], MAX_CANDIDATES, Some(&partition.query_ids));
            query_ids
                .extend(top.pop().unwrap_or_default().into_iter().map(|(query_id, _)| query_id));
        }
        query_ids.sort_unstable();
        query_ids.dedup();
        let is_own = |query_id: &QueryId| lookup.exclude.is_some_and(|(own, _)| own == *query_id);
        let mut near: Vec<(QueryId, f32)> = query_ids
            .into_iter()
            .filter(|query_id| !is_own(query_id))
            .filter_map(|query_id| {
                let query = self.queries.get(query_id)?;
                let without = usize::from(lookup.exclude.is_some());
                let length = match by_word.shared[query_id as usize] {
                    0.0 => 1.0,
                    _ => partition.length(&query.words, of, without),
                };
                let words = by_word.shared[query_id as usize] / (length * by_word.length);
                let meaning = rows.and_then(|(rows, vector)| rows.cosine(vector, query_id));
                Some((query_id, meaning.map_or(words, |meaning| f32::midpoint(words, meaning))))
            })
            .collect();
        keep_best(&mut near, MAX_VOTERS);
        near
    }

    /// Counts the votes of the nearest queries. Returns three numbers for each tool that was called after one of them:
    /// the tool, its share of the votes, and the greatest similarity of such a query. Also returns the greatest
    /// similarity of any of the queries.
    fn votes(&self, near: &[(QueryId, f32)]) -> (Vec<(u32, f32, f32)>, f32) {
        let mut votes: Vec<(u32, f32, f32)> = Vec::new();
        let (mut all, mut nearest) = (f32::MIN_POSITIVE, 0.0_f32);
        for (query_id, near) in near {
            let (near, Some(query)) = (near.max(0.0), self.queries.get(*query_id)) else {
                continue;
            };
            let vote = near.powi(VOTE_EXPONENT);
            all += vote;
            nearest = nearest.max(near);
            let most = query.max_weight();
            for call in &query.calls {
                let part = call.weight() / most;
                match votes.iter_mut().find(|(tool, ..)| *tool == call.tool) {
                    Some((_, sum, nearest)) => {
                        *sum += vote * part;
                        *nearest = nearest.max(near * part);
                    }
                    None => votes.push((call.tool, vote * part, near * part)),
                }
            }
        }
        for (_, vote, _) in &mut votes {
            *vote /= all;
        }
        (votes, nearest)
    }

    /// Returns the similarity of the query to the mean vector of a tool's past queries; `own` is the weight of the
    /// excluded query in this mean.
    fn mean(&self, lookup: Lookup<'_>, tool: u32, own: f32) -> f32 {
        let (Some(vector), Some(centres)) = (lookup.vector, &self.centres) else { return 0.0 };
        let Some(used) = self.tools.get(tool) else { return 0.0 };
        if own <= 0.0 {
            return centres.cosine(vector, tool).unwrap_or(0.0);
        }
        let mut rest = used.sum.clone();
        let row = lookup.exclude.and_then(|(query_id, _)| self.rows.as_ref()?.vector(query_id));
        if let Some(row) = row {
            rest.iter_mut().zip(&row).for_each(|(rest, number)| *rest -= own * number);
        }
        let product: f32 = rest.iter().zip(vector).map(|(rest, number)| rest * number).sum();
        let square: f32 = rest.iter().map(|rest| rest * rest).sum();
        product / square.max(1e-6).sqrt()
    }
}

/// Keeps only the entries with the best scores, best first; entries with equal scores are sorted by number.
fn keep_best(scored: &mut Vec<(u32, f32)>, max: usize) {
    let order = |left: &(u32, f32), right: &(u32, f32)| {
        right.1.total_cmp(&left.1).then(left.0.cmp(&right.0))
    };
    if scored.len() > max {
        scored.select_nth_unstable_by(max, order);
        scored.truncate(max);
    }
    scored.sort_unstable_by(order);
}
