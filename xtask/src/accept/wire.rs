//! The acceptance checks `core.wire` and `mcp.http-wire`: malformed input must neither stop a server nor get a wrong
//! answer.

use super::{Options, Verdict, shared};
use crate::{
    corpus::{self, Summary},
    run::{Context, Outcome, Program},
};

/// The corpus in the shared material.
const CORPUS: &str = "corpora/rpc_invalid.public.jsonl";
/// The minimum share of corpus rows to which the server reacts as their labels require.
const MIN_RATIO: f64 = 0.98;
/// The number of lines that the program `fuzz_lines` mutates and tests; `SEED` is the seed of the mutations.
const LINES: &str = "10000000";
const SEED: &str = "20260228";

/// Runs the labelled rows for stdio, then the mutated lines.
pub(super) fn core_wire(options: &Options) -> Outcome<Verdict> {
    let rows = match shared(CORPUS) {
        Some(file) => judged(corpus::stdio(&file, &[])?),
        None => options.skip("the corpus", "it does not lie beside the repository")?,
    };
    // `fuzz_lines` exits with a failure on a panic, a wrong answer or growing memory.
    let program = ["run", "--release", "-p", "mgp-programs", "--bin", "fuzz_lines"];
    let fuzz = Program::cargo(&program).args(&["--", "--seed", SEED, "--n", LINES]).run();
    if let Err(failure) = &fuzz {
        println!("{failure}");
    }
    let lines = Verdict {
        pass: fuzz.is_ok(),
        figure: format!(
            "{LINES} mutated lines {}",
            if fuzz.is_ok() { "survived" } else { "NOT survived" }
        ),
        bound: "no panic, no growth".to_owned(),
    };
    Ok(rows.and(lines))
}

/// Sends the labelled rows for HTTP to the conformance server.
pub(super) fn http_wire() -> Outcome<Verdict> {
    let file = shared(CORPUS).context("the corpus")?;
    Ok(judged(corpus::http(&file, &[])?))
}

fn judged(rows: Summary) -> Verdict {
    Verdict {
        pass: rows.rows > 0 && rows.alive == rows.rows && rows.ratio() >= MIN_RATIO,
        figure: format!("{} of {} rows as labelled, {} alive", rows.ok, rows.rows, rows.alive),
        bound: format!(">= {MIN_RATIO} of the rows, all alive"),
    }
}
