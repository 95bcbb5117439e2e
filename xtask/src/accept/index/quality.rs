//! The acceptance check `index.quality`: the search finds the needed tools of seven labelled sets, with one
//! configuration that was not tuned to their queries.

use super::{
    data::Set,
    eval::{Answer, Ask, Embedder, Searcher},
    score::{Scores, score},
    skipped,
    table::Table,
};
use crate::{
    accept::{Options, Verdict},
    run::Outcome,
};

/// Returns the minimum recall@5 and the minimum NDCG@10, as means over all sets.
fn bounds(embedder: Embedder) -> (f64, f64) {
    match embedder {
        Embedder::Static => (0.69, 0.65),
        Embedder::Sentence => (0.71, 0.67),
    }
}

/// Scores hybrid search, which must reach the bounds, and for comparison also keyword and semantic search.
pub(in crate::accept) fn quality(options: &Options) -> Outcome<Verdict> {
    let Some(sets) = Set::all(options)? else { return skipped(options, "index.quality") };
    let searcher = Searcher::build()?;
    let mut verdicts = Vec::new();
    for embedder in searcher.embedders() {
        for strategy in strategies(*embedder) {
            let table = table(&searcher, &sets, strategy, *embedder)?;
            print!("{}", table.text());
            if *strategy == "hybrid" {
                verdicts.push(verdict(&table, *embedder));
            }
        }
    }
    if searcher.embedders() == [Embedder::Static] {
        println!(
            "!! SKIPPED the sentence encoder: set MGP_MODEL to its folder (docs/sentence-encoder.md)"
        );
    }
    let first = verdicts.remove(0);
    Ok(verdicts.into_iter().fold(first, Verdict::and))
}

/// Returns the strategies to run with an embedder; keyword search runs once, because it uses no embedder.
fn strategies(embedder: Embedder) -> &'static [&'static str] {
    match embedder {
        Embedder::Static => &["keyword", "semantic", "hybrid"],
        Embedder::Sentence => &["semantic", "hybrid"],
    }
}

/// Searches for all queries of every set with one strategy, and returns a table of the scores.
pub(super) fn table(
    searcher: &Searcher,
    sets: &[Set],
    strategy: &str,
    embedder: Embedder,
) -> Outcome<Table> {
    let mut table = Table::new(format!("{strategy}, {}", name(embedder)));
    for set in sets {
        let answer = searcher.run(Ask { embedder, ..Ask::new(set, strategy) })?;
        table.rows.push((set.name, of(set, &answer)));
    }
    Ok(table)
}

/// Returns the mean scores of the rankings for all queries of a set.
pub(super) fn of(set: &Set, answer: &Answer) -> Scores {
    score(&set.queries, &answer.ranking, Some(&set.servers()))
}

fn name(embedder: Embedder) -> &'static str {
    match embedder {
        Embedder::Static => "static table",
        Embedder::Sentence => "sentence encoder",
    }
}

fn verdict(table: &Table, embedder: Embedder) -> Verdict {
    let (mean, (recall, gain)) = (table.macro_mean(), bounds(embedder));
    Verdict {
        pass: mean.recall_5() >= recall && mean.ndcg() >= gain,
        figure: format!(
            "{}: recall@5 {:.3}, NDCG@10 {:.3}",
            name(embedder),
            mean.recall_5(),
            mean.ndcg()
        ),
        bound: format!("{recall:.2}, {gain:.2}"),
    }
}
