//! The checks of governance that are programs: the audit log, the cost of a call, tool definitions.

mod kills;
mod review;
mod tamper;
mod tooldef;
mod writer;

use super::Verdict;
use crate::{
    bench,
    corpus::echo,
    run::{Outcome, Program, Rigour, release_program},
};
use std::path::Path;

pub(super) use review::review;
pub(super) use tooldef::tooldef;

/// The maximum number of instructions of a governed echo.
const MAX_GOVERNED: f64 = 20_000.0;

/// The maximum time of a decision, in nanoseconds.
const MAX_DECISION_NS: f64 = 1_000.0;

/// Tampers with a log, then kills its writer.
pub(super) fn audit() -> Outcome<Verdict> {
    let program = release_program("auditlog")?;
    Ok(tamper::all(&program)?.and(kills::all(&program)?))
}

/// Counts the instructions of a governed call, and times a decision.
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

/// Judges the slowest kind of decision, as the program that times them prints it.
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
