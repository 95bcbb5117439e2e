//! The acceptance check `index.tokens`: a request that contains only the tools found by a search costs a model far
//! fewer tokens than a request with all tool definitions (MGP §16.1, §16.8).

use super::{
    data::Set,
    eval::{Ask, Searcher},
    skipped,
};
use crate::{
    accept::{Options, Verdict},
    run::{Context, Outcome},
};

/// Numbers of tools, each with the minimum share of tokens that the search saves in a catalogue of at least this size.
const PROMISES: [(usize, f64); 2] = [(1_000, 0.99), (15_000, 0.999)];

/// Compares the tokens of the whole catalogue with the tokens of a large request (the 95th percentile).
pub(in crate::accept) fn tokens(options: &Options) -> Outcome<Verdict> {
    let Some(sets) = Set::all(options)? else { return skipped(options, "index.tokens") };
    let searcher = Searcher::build()?;
    println!(
        "{:18}{:>8}{:>12}{:>14}{:>12}{:>12}{:>9}",
        "tokens", "tools", "all", "request, p95", "reduction", "violations", "bound"
    );
    let (mut pass, mut least, mut violations) = (true, [1.0_f64; PROMISES.len()], 0);
    for set in &sets {
        let figures = searcher.run(Ask::new(set, "hybrid"))?.figures;
        let number = |name: &str| figures[name].as_u64().context(name.to_owned());
        let (all, found) = (number("tokens_all")?, number("tokens_found_p95")?);
        let (tools, exceeded) = (number("tools")?, number("budget_violations")?);
        let kept = 1.0 - ratio(found, all);
        let promise = promise(usize::try_from(tools)?);
        let bound = promise.map(|promise| PROMISES[promise].1);
        println!(
            "{:18}{tools:>8}{all:>12}{found:>14}{:>10.3} %{exceeded:>12}{:>9}",
            set.name,
            kept * 100.0,
            bound.map_or_else(|| "-".to_owned(), |bound| format!("{:.1} %", bound * 100.0))
        );
        violations += exceeded;
        pass &= exceeded == 0;
        pass &= bound.is_none_or(|bound| kept >= bound);
        if let Some(promise) = promise {
            least[promise] = least[promise].min(kept);
        }
    }
    let least: Vec<_> = PROMISES
        .iter()
        .zip(least)
        .map(|((tools, _), kept)| format!("{:.2} % from {tools} tools on", kept * 100.0))
        .collect();
    Ok(Verdict {
        pass,
        figure: format!("{violations} budgets exceeded; at least {} saved", least.join(", ")),
        bound: format!(
            "none; {}",
            PROMISES.map(|(_, bound)| format!("{:.1} %", bound * 100.0)).join(", ")
        ),
    })
}

/// Returns the position of the entry in [`PROMISES`] that applies to a number of tools, if any.
fn promise(tools: usize) -> Option<usize> {
    PROMISES.iter().rposition(|(least, _)| tools >= *least)
}

#[expect(clippy::cast_precision_loss, reason = "counts of tokens are far below 2^52")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / (whole as f64).max(1.0)
}
