//! The acceptance check `index.laws`: properties of the search that must hold on every labelled set.

use super::{
    data::Set,
    eval::{Embedder, Searcher},
    history, names,
    quality::table,
    skipped,
};
use crate::{
    accept::{Options, Verdict},
    run::Outcome,
};

/// The maximum loss of NDCG@10 by hybrid search, compared with the better of keyword and semantic search, on any set.
const SLACK: f64 = 0.005;

/// Checks hybrid search against keyword and semantic search, then searches for names, then history.
pub(in crate::accept) fn laws(options: &Options) -> Outcome<Verdict> {
    let Some(sets) = Set::all(options)? else { return skipped(options, "index.laws") };
    let searcher = Searcher::build()?;
    let mut verdict = halves(&searcher, &sets, Embedder::Static)?;
    for embedder in &searcher.embedders()[1..] {
        verdict = verdict.and(halves(&searcher, &sets, *embedder)?);
    }
    Ok(verdict.and(names::all(&searcher, &sets)?).and(history::all(&searcher, &sets)?))
}

/// Checks that hybrid search is worse by at most [`SLACK`] than the better of keyword and semantic search.
fn halves(searcher: &Searcher, sets: &[Set], embedder: Embedder) -> Outcome<Verdict> {
    let [keyword, semantic, hybrid] =
        ["keyword", "semantic", "hybrid"].map(|strategy| table(searcher, sets, strategy, embedder));
    let (keyword, semantic, hybrid) = (keyword?, semantic?, hybrid?);
    println!("{:18}{:>9}{:>9}{:>9}{:>9}  NDCG@10", "", "keyword", "semantic", "hybrid", "margin");
    let mut worst = f64::INFINITY;
    for ((one, other), both) in keyword.rows.iter().zip(&semantic.rows).zip(&hybrid.rows) {
        let (one, other, gain) = (one.1.ndcg(), other.1.ndcg(), both.1.ndcg());
        let margin = gain - one.max(other);
        worst = worst.min(margin);
        println!("{:18}{one:>9.4}{other:>9.4}{gain:>9.4}{margin:>+9.4}", both.0);
    }
    Ok(Verdict {
        pass: worst >= -SLACK,
        figure: format!("hybrid {worst:+.4} against the better half at worst"),
        bound: format!("{:+.3}", -SLACK),
    })
}
