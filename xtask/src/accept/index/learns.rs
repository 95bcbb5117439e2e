//! The acceptance check `find.learns`: the tools that a user calls after searches improve the user's later searches for
//! tools of the same kinds, and harm no other searches. Calls by another user have no effect.
//!
//! The check simulates the user. The simulated user looks at the first ten results and usually calls the right tools
//! among them, but one time in ten it calls only the first result.

use super::{
    data::{Query, Set},
    eval::{Ask, Searcher},
    history::{SEEDS, split},
    score::{Ranking, score},
    skipped,
};
use crate::{
    accept::{Options, Verdict},
    dice::Dice,
    run::Outcome,
};
use serde_json::json;
use std::collections::BTreeSet;

/// The minimum gain of recall@5 for the kinds of tools that were called, as the mean over the sets.
const MIN_GAIN: f64 = 0.05;

/// The maximum loss of recall@5 for the other kinds of tools, in any set.
const MAX_LOSS: f64 = 0.005;

const SEED: u64 = 7;

/// The number of results that the user looks at.
const SEEN: usize = 10;

/// The average number of queries among which the user once calls only the first result, right or wrong.
const NOISE: usize = 10;

/// The number of calls that the other user, the adversary, makes.
const ADVERSE_CALLS: usize = 1_000;

/// A call of a tool after a query; `subject` is the caller, or `None` for the simulated user.
struct Called<'a> {
    query: &'a str,
    tool: &'a str,
    subject: Option<&'a str>,
}

/// Sums over the splits of one set: the number of searches, and their recall@5 before and after the user's calls.
#[derive(Default)]
struct Recall {
    searches: usize,
    before: f64,
    after: f64,
}

/// Compares searches without a history, with the user's history, and with a history that also contains an adversary's
/// calls.
pub(in crate::accept) fn learns(options: &Options) -> Outcome<Verdict> {
    let Some(sets) = Set::all(options)? else { return skipped(options, "find.learns") };
    let searcher = Searcher::build()?;
    let (mut gains, mut worst) = (Vec::new(), 0.0_f64);
    let (mut moved, mut moved_shared, mut asked_of) = (0, 0, 0);
    println!(
        "{:18}{:>6}{:>9}{:>9}{:>7}{:>9}{:>9}",
        "set", "used", "before", "after", "other", "before", "after"
    );
    for set in &sets {
        let before = searcher.run(Ask::new(set, "hybrid"))?.ranking;
        let (mut same, mut other) = (Recall::default(), Recall::default());
        for seed in SEEDS {
            let (past, asked) = split(&set.queries, seed);
            let used = calls(&past, &before);
            let after = with(&searcher, set, &used, false)?;
            compare(set, &asked, &used, [&before, &after], [&mut same, &mut other]);
            if seed != SEEDS[0] {
                continue;
            }
            let adverse = adverse_calls(set, &asked);
            let both: Vec<Called<'_>> = used.into_iter().chain(adverse).collect();
            moved += moved_top(&asked, &after, &with(&searcher, set, &both, false)?);
            moved_shared += moved_top(
                &asked,
                &with(&searcher, set, &both[..both.len() - ADVERSE_CALLS], true)?,
                &with(&searcher, set, &both, true)?,
            );
            asked_of += asked.len();
        }
        let [(same_before, same_after), (other_before, other_after)] =
            [&same, &other].map(Recall::means);
        println!(
            "{:18}{:>6}{same_before:>9.4}{same_after:>9.4}{:>7}{other_before:>9.4}{other_after:>9.4}",
            set.name, same.searches, other.searches
        );
        gains.push(same_after - same_before);
        worst = worst.max(other_before - other_after);
    }
    let gain = gains.iter().sum::<f64>() / f64::from(u32::try_from(gains.len()).unwrap_or(1));
    println!(
        "an adversary moves {moved} of {asked_of} top fives, {moved_shared} where a tenant learns together"
    );
    Ok(Verdict {
        pass: gain >= MIN_GAIN && worst <= MAX_LOSS && moved == 0,
        figure: format!(
            "{gain:+.3} on what was used, {:+.3} at worst elsewhere, {moved} moved (seeds {SEEDS:?})",
            -worst
        ),
        bound: format!("{MIN_GAIN:+.3}, {:+.3}, 0", -MAX_LOSS),
    })
}

impl Recall {
    fn add(&mut self, searches: usize, before: f64, after: f64) {
        let weight = f64::from(u32::try_from(searches).unwrap_or(u32::MAX));
        self.searches += searches;
        self.before += weight * before;
        self.after += weight * after;
    }

    fn means(&self) -> (f64, f64) {
        let searches = f64::from(u32::try_from(self.searches.max(1)).unwrap_or(u32::MAX));
        (self.before / searches, self.after / searches)
    }
}

/// Adds to `same` the recall of searches for tools that were called, and to `other` the recall of all other searches.
fn compare(
    set: &Set,
    asked: &[&Query],
    used: &[Called<'_>],
    [before, after]: [&Ranking; 2],
    [same, other]: [&mut Recall; 2],
) {
    let kinds: BTreeSet<&str> = used.iter().map(|call| call.tool).collect();
    let servers = set.servers();
    let is_used = |query: &&&Query| query.relevant.iter().any(|tool| kinds.contains(&**tool));
    let (used, unused): (Vec<&Query>, Vec<&Query>) = asked.iter().partition(is_used);
    for (queries, sum) in [(used, same), (unused, other)] {
        let recall = |ranking| score(queries.iter().copied(), ranking, Some(&servers)).recall_5();
        sum.add(queries.len(), recall(before), recall(after));
    }
}

/// Returns the calls that the simulated user makes after the queries `past`, whose results are in `seen`.
fn calls<'a>(past: &[&'a Query], seen: &'a Ranking) -> Vec<Called<'a>> {
    let mut dice = Dice::new(SEED);
    past.iter()
        .filter_map(|query| Some((query, seen.get(&query.id)?)))
        .flat_map(|(query, results)| {
            let is_wrong = dice.below(NOISE) == 0;
            let is_called = move |(at, tool): &(usize, &String)| {
                if is_wrong { *at == 0 } else { query.relevant.contains(*tool) }
            };
            let called = results.iter().take(SEEN).enumerate().filter(is_called);
            called.map(|(_, tool)| Called { query: &query.text, tool, subject: None })
        })
        .collect()
}

/// Returns calls of random tools by another user. They follow exactly the queries that are searched for later, so that
/// they would have the greatest effect.
fn adverse_calls<'a>(set: &'a Set, asked: &[&'a Query]) -> Vec<Called<'a>> {
    let mut dice = Dice::new(SEED);
    (0..ADVERSE_CALLS)
        .map(|number| {
            let query = asked[number % asked.len()];
            let tool = &set.tools[dice.below(set.tools.len())].id;
            Called { query: &query.text, tool, subject: Some("mallory") }
        })
        .collect()
}

/// Runs the searches with a history of these calls.
fn with(searcher: &Searcher, set: &Set, calls: &[Called<'_>], is_shared: bool) -> Outcome<Ranking> {
    let lines = calls.iter().map(|Called { query, tool, subject }| {
        json!({"query": query, "relevant": [tool], "subject": subject})
    });
    let file = searcher.write("calls.jsonl", lines)?;
    let ask = Ask { history: Some(&file), is_shared, ..Ask::new(set, "hybrid") };
    Ok(searcher.run(ask)?.ranking)
}

/// Returns the number of queries whose first five results differ between two rankings.
fn moved_top(asked: &[&Query], one: &Ranking, other: &Ranking) -> usize {
    let top = |ranking: &Ranking, query: &Query| -> Vec<String> {
        ranking.get(&query.id).map(|all| all.iter().take(5).cloned().collect()).unwrap_or_default()
    };
    asked.iter().filter(|query| top(one, query) != top(other, query)).count()
}
