//! `core.wire`: no input breaks the wire.

use super::{Verdict, shared};
use crate::{
    corpus,
    run::{Outcome, Program},
};

/// The share of rows that must go as labelled.
const RATIO: f64 = 0.98;
/// How many mutated lines, and from which seed.
const LINES: &str = "10000000";
const SEED: &str = "20260228";

/// Runs the labelled rows that speak stdio, then the mutated lines.
pub(super) fn core_wire() -> Outcome<Verdict> {
    let file = shared("corpora/rpc_invalid.public.jsonl");
    if file.is_none() {
        println!("the corpus is not here; passed over");
    }
    let rows = file.map(|file| corpus::stdio(&file, &[])).transpose()?;
    let fuzz = fuzz();
    if let Err(failure) = &fuzz {
        println!("{failure}");
    }
    let rows_pass = rows.is_none_or(|rows| rows.alive == rows.rows && rows.ratio() >= RATIO);
    let shown = rows.map_or("no rows".to_owned(), |rows| {
        format!("{} of {} rows as labelled, {} alive", rows.ok, rows.rows, rows.alive)
    });
    let lines = if fuzz.is_ok() { "survived" } else { "NOT survived" };
    Ok(Verdict {
        pass: rows_pass && fuzz.is_ok(),
        figure: format!("{shown}; {LINES} mutated lines {lines}"),
        bound: format!(">= {RATIO} of the rows, all alive; no panic, no growth"),
    })
}

/// Ten million mutated lines; the program fails by itself on a panic or growth.
fn fuzz() -> Outcome {
    let example = ["run", "--release", "-p", "mgp-transport", "--example", "fuzz_lines"];
    Program::cargo(&example).args(&["--", "--seed", SEED, "--n", LINES]).run()
}
