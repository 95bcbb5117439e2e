//! The acceptance checks of governance that are more than test binaries: the cost of decisions, tool definitions
//! and their review, and validators.

mod corpora;
mod review;

use super::Verdict;
use crate::{
    bench,
    corpus::echo,
    run::{Outcome, Program, Rigour, release_program},
};
use std::path::Path;

pub(super) use corpora::{corpora, tooldef};
pub(super) use review::review;

/// The maximum number of instructions of an echo call with all governance layers.
const MAX_GOVERNED: f64 = 20_000.0;

/// The maximum time of one decision, in nanoseconds.
const MAX_DECISION_NS: f64 = 1_000.0;

/// Runs `gov.cost`: counts the instructions of a governed call, and times decisions.
pub(super) fn cost(rigour: Rigour) -> Outcome<Verdict> {
    let governed = bench::instructions_of(Path::new(&echo()?), &["--governed"], rigour)?;
    let decision = decision()?;
    Ok(match governed {
        Some(count) => Verdict {
            pass: count <= MAX_GOVERNED,
            figure: format!("{count:.0} instructions for a governed echo"),
            bound: format!("{MAX_GOVERNED:.0}"),
        }
        .and(decision),
        None => decision,
    })
}

/// Checks the slowest kind of decision in the output of the program `decisions`.
fn decision() -> Outcome<Verdict> {
    let text = Program::new(release_program("decisions")?).output()?;
    print!("{text}");
    let figures =
        text.lines().filter_map(|line| line.split_whitespace().last()?.parse::<f64>().ok());
    let slowest = figures.fold(0.0, f64::max);
    Ok(Verdict {
        pass: slowest > 0.0 && slowest <= MAX_DECISION_NS,
        figure: format!("{slowest:.0} ns for a decision"),
        bound: format!("{MAX_DECISION_NS:.0}"),
    })
}
