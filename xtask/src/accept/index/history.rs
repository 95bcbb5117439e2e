//! The part of `index.laws` about history, i.e. about a search that knows which tools were called after earlier
//! queries. The search must reach a minimum recall on two sets, and must not become worse on any set.
//!
//! The check splits queries into history and test queries. Queries of the same task are on the same side; so are
//! queries without a task that have the same text.

use super::{
    data::{Query, Set},
    eval::{Ask, Searcher},
    score::score,
};
use crate::{accept::Verdict, dice::Dice, run::Outcome};
use serde_json::json;
use std::collections::BTreeSet;

/// The minimum recall@5 with history, for two of the sets.
const BOUNDS: [(&str, f64); 2] = [("metatool", 0.88), ("livemcp", 0.66)];

/// The maximum loss of recall that history may cause on any set.
const SLACK: f64 = 0.005;

/// The seeds of the random splits. The check uses the mean over the splits, because a split of a small set has few test
/// queries, at most 70.
pub(super) const SEEDS: [u64; 3] = [7, 11, 13];

/// The number of [`SEEDS`], by which the mean divides.
const SPLITS: f64 = 3.0;

/// The percentage of the tasks, or of the different texts of queries without a task, that are used as history.
const PAST: usize = 70;

/// Splits each set, and compares the recall of the test queries with and without the history.
pub(super) fn all(searcher: &Searcher, sets: &[Set]) -> Outcome<Verdict> {
    let (mut pass, mut worst, mut reached) = (true, f64::INFINITY, Vec::new());
    println!("{:18}{:>6}{:>8}{:>11}{:>11}", "history", "seed", "asked", "zero-shot", "with");
    for set in sets {
        let without_history = searcher.run(Ask::new(set, "hybrid"))?.ranking;
        let (mut before, mut after) = (0.0, 0.0);
        for seed in SEEDS {
            let (past, asked) = split(&set.queries, seed);
            let lines =
                past.iter().map(|query| json!({"query": query.text, "relevant": query.relevant}));
            let file = searcher.write("history.jsonl", lines)?;
            let ask = Ask { history: Some(&file), ..Ask::new(set, "hybrid") };
            let with_history = searcher.run(ask)?.ranking;
            let servers = set.servers();
            let recall = |ranking| score(asked.iter().copied(), ranking, Some(&servers)).recall_5();
            let (zero, with) = (recall(&without_history), recall(&with_history));
            println!("{:18}{seed:>6}{:>8}{zero:>11.4}{with:>11.4}", set.name, asked.len());
            before += zero / SPLITS;
            after += with / SPLITS;
        }
        println!("{:18}{:>6}{:>8}{before:>11.4}{after:>11.4}", set.name, "mean", "");
        worst = worst.min(after - before);
        pass &= after - before >= -SLACK;
        if let Some((name, least)) = BOUNDS.iter().find(|(name, _)| *name == set.name) {
            pass &= after >= *least;
            reached.push(format!("{name} {after:.3}"));
        }
    }
    Ok(Verdict {
        pass,
        figure: format!(
            "with history {}, {worst:+.4} at worst (seeds {SEEDS:?})",
            reached.join(", ")
        ),
        bound: format!(
            "{}, {:+.3}",
            BOUNDS.map(|(name, least)| format!("{name} {least:.2}")).join(", "),
            -SLACK
        ),
    })
}

pub(super) fn split(queries: &[Query], seed: u64) -> (Vec<&Query>, Vec<&Query>) {
    let keys: BTreeSet<String> = queries.iter().map(Query::key).collect();
    let mut keys: Vec<_> = keys.into_iter().collect();
    Dice::new(seed).shuffle(&mut keys);
    let past: BTreeSet<_> = keys.drain(..keys.len() * PAST / 100).collect();
    queries.iter().partition(|query| past.contains(&query.key()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_on_one_side_of_a_split() {
        let queries: Vec<Query> = (0..100)
            .map(|number| {
                let text = format!(
                    r#"{{"id":"{number}","query":"do {number}","relevant":["a"],"task":"{}"}}"#,
                    number / 4
                );
                serde_json::from_str(&text).unwrap()
            })
            .collect();
        for seed in SEEDS {
            let (past, now) = split(&queries, seed);
            let [past, now] =
                [past, now].map(|side| side.into_iter().map(Query::key).collect::<BTreeSet<_>>());
            assert!(past.is_disjoint(&now));
            assert_eq!((past.len(), now.len()), (17, 8));
        }
    }
}
