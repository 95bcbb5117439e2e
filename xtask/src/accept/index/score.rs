//! Scores rankings by the tools that each query needs, in the same way as `retrieval/eval.py` of the shared material.
//!
//! A needed tool may have equivalent tools. Any one tool of its group satisfies the need; further tools of the group
//! count no more.

use super::data::Query;
use std::collections::{BTreeMap, BTreeSet};

/// The ranked tool ids of each query, best first, by query id.
pub(super) type Ranking = BTreeMap<String, Vec<String>>;

/// The names of the scores (hit, recall, complete, NDCG and MRR at a rank), in the order of [`Scores`].
pub(super) const COLUMNS: [&str; 10] =
    ["H@1", "R@1", "R@3", "R@5", "R@10", "R@20", "C@5", "C@10", "NDCG@10", "MRR"];

/// The scores of one or more rankings, one figure per column.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Scores(pub(super) [f64; 10]);

impl Scores {
    /// Returns the share of needed tools that rank among the first five.
    pub(super) fn recall_5(&self) -> f64 {
        self.0[3]
    }

    /// Returns the share of needed tools that rank among the first three.
    pub(super) fn recall_3(&self) -> f64 {
        self.0[2]
    }

    /// Returns the share of queries for which the first ranked tool is a needed tool.
    pub(super) fn first(&self) -> f64 {
        self.0[0]
    }

    /// Returns NDCG@10: the gain of the first ten tools, discounted by rank, as a share of the best possible gain.
    pub(super) fn ndcg(&self) -> f64 {
        self.0[8]
    }

    /// Returns the mean of several scores; all zero if there are none.
    pub(super) fn mean(all: impl IntoIterator<Item = Self>) -> Self {
        let (mut sum, mut count) = ([0.0; 10], 0.0_f64);
        for scores in all {
            count += 1.0;
            sum.iter_mut().zip(scores.0).for_each(|(sum, score)| *sum += score);
        }
        Self(sum.map(|sum| sum / count.max(1.0)))
    }
}

/// Returns the mean scores over queries; a query without a ranking scores zero.
///
/// `servers` has the server of each tool. If it is given, queries with relevant servers are scored by servers instead
/// of tools.
pub(super) fn score<'a>(
    queries: impl IntoIterator<Item = &'a Query>,
    ranking: &Ranking,
    servers: Option<&BTreeMap<String, String>>,
) -> Scores {
    let none = Vec::new();
    Scores::mean(
        queries
            .into_iter()
            .map(|query| one(query, ranking.get(&query.id).unwrap_or(&none), servers)),
    )
}

fn one(query: &Query, ranked: &[String], servers: Option<&BTreeMap<String, String>>) -> Scores {
    let by_server = servers.filter(|_| !query.relevant_servers.is_empty());
    let ranked = match by_server {
        Some(servers) => distinct(ranked.iter().map(|tool| servers.get(tool).unwrap_or(tool))),
        None => distinct(ranked),
    };
    let single = |ids: &[String]| ids.iter().map(|id| vec![id.clone()]).collect();
    let groups: Vec<Vec<String>> = match by_server {
        Some(_) => single(&query.relevant_servers),
        None if query.groups.is_empty() => single(&query.relevant),
        None => query.groups.clone(),
    };
    let mut members: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (number, group) in groups.iter().enumerate() {
        for id in group {
            members.entry(id).or_default().push(number);
        }
    }
    let (mut satisfied, mut first) = (BTreeSet::new(), None);
    let mut gains = Vec::with_capacity(ranked.len());
    for (at, id) in ranked.iter().enumerate() {
        let of = members.get(id).map(Vec::as_slice).unwrap_or_default();
        gains.push(of.iter().any(|group| satisfied.insert(*group)));
        if !of.is_empty() && first.is_none() {
            first = Some(at);
        }
    }
    let hits = |k: usize| gains.iter().take(k).filter(|gain| **gain).count();
    let recall = |k| share(hits(k), groups.len());
    let complete = |k| if hits(k) == groups.len() { 1.0 } else { 0.0 };
    let dcg: f64 = gains.iter().take(10).enumerate().filter(|(_, gain)| **gain).map(discount).sum();
    let best: f64 = (0..groups.len().min(10)).map(|at| discount((at, &true))).sum();
    Scores([
        if first == Some(0) { 1.0 } else { 0.0 },
        recall(1),
        recall(3),
        recall(5),
        recall(10),
        recall(20),
        complete(5),
        complete(10),
        if best > 0.0 { dcg / best } else { 0.0 },
        first.map_or(0.0, |at| share(1, at + 1)),
    ])
}

/// Returns each id once, at its first position.
fn distinct<'a>(ids: impl IntoIterator<Item = &'a String>) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    ids.into_iter().map(String::as_str).filter(|id| seen.insert(*id)).collect()
}

fn discount((at, _): (usize, &bool)) -> f64 {
    1.0 / float(at + 2).log2()
}

fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { float(part) / float(whole) }
}

#[expect(clippy::cast_precision_loss, reason = "ranks and counts are small")]
fn float(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(json: &str) -> Query {
        serde_json::from_str(json).unwrap()
    }

    #[track_caller]
    fn check(query: &Query, ranked: &[&str], servers: &[(&str, &str)], expected: [f64; 10]) {
        let ranked: Vec<_> = ranked.iter().map(ToString::to_string).collect();
        let servers: BTreeMap<_, _> = servers
            .iter()
            .map(|(tool, server)| ((*tool).to_owned(), (*server).to_owned()))
            .collect();
        let servers = (!servers.is_empty()).then_some(&servers);
        let found = one(query, &ranked, servers).0;
        for (column, (found, expected)) in COLUMNS.iter().zip(found.iter().zip(expected)) {
            assert!((found - expected).abs() < 5e-5, "{column}: {found}, not {expected}");
        }
    }

    // The expected figures were computed with `eval.py`.

    #[test]
    fn needed_tools_count_at_their_rank() {
        let query = query(r#"{"id":"q","query":"?","relevant":["a","b"]}"#);
        let expected = [0.0, 0.0, 0.5, 0.5, 1.0, 1.0, 0.0, 1.0, 0.60526, 0.5];
        check(&query, &["x", "a", "y", "z", "w", "b"], &[], expected);
        check(&query, &["a", "b"], &[], [1.0, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
        check(&query, &[], &[], [0.0; 10]);
    }

    #[test]
    fn duplicates_are_dropped() {
        let query = query(r#"{"id":"q","query":"?","relevant":["a"]}"#);
        let expected = [0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.63093, 0.5];
        check(&query, &["x", "x", "x", "x", "x", "a"], &[], expected);
    }

    #[test]
    fn a_group_is_satisfied_once() {
        let query = query(
            r#"{"id":"q","query":"?","relevant":["a","b","c"],"groups":[["a","b"],["b","c"]]}"#,
        );
        let expected = [1.0, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
        check(&query, &["b", "a"], &[], [1.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.0, 0.0, 0.61315, 1.0]);
        check(&query, &["a", "b"], &[], expected);
    }

    #[test]
    fn servers_are_scored_where_servers_are_needed() {
        let query =
            query(r#"{"id":"q","query":"?","relevant":["s/a","s/b"],"relevant_servers":["s"]}"#);
        let servers = [("s/a", "s"), ("s/b", "s"), ("t/a", "t")];
        let expected = [0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.63093, 0.5];
        check(&query, &["t/a", "s/b", "s/a"], &servers, expected);
    }

    #[test]
    fn a_query_without_a_ranking_counts() {
        let queries = [
            query(r#"{"id":"q","query":"?","relevant":["a"]}"#),
            query(r#"{"id":"r","query":"?","relevant":["a"]}"#),
        ];
        let ranking = [("q".to_owned(), vec!["a".to_owned()])].into();
        assert!((score(&queries, &ranking, None).first() - 0.5).abs() < 1e-9);
    }
}
