//! `gov.cost`: what governance costs a call, a decision, and a revocation.

use crate::{
    accept::{Verdict, binary},
    bench,
    corpus::echo,
    run::{Context, Outcome, Program, Rigour},
};
use std::path::Path;

/// The most instructions of a governed echo.
const GOVERNED: f64 = 25_000.0;

/// The most a decision may take, in nanoseconds.
const DECISION: f64 = 1_000.0;

/// Counts a governed call, times a decision, and revokes in another process.
pub(in crate::accept) fn cost(rigour: Rigour) -> Outcome<Verdict> {
    let governed =
        bench::instructions_of(Path::new(&echo()?), &["--governed"], rigour)?.map(|count| {
            Verdict {
                pass: count <= GOVERNED,
                figure: format!("{count:.0} instructions for a governed echo"),
                bound: format!("{GOVERNED:.0}"),
            }
        });
    let decided = decision()?;
    let revoked = binary::run(&[("mgp-security", "two_processes")])?;
    let rest = decided.and(revoked);
    Ok(match governed {
        Some(governed) => governed.and(rest),
        None => rest,
    })
}

/// The slowest kind of decision, as the example that times them prints it.
fn decision() -> Outcome<Verdict> {
    let program = super::example("decisions")?;
    let text = Program::new(program).output()?;
    print!("{text}");
    let figures =
        text.lines().filter_map(|line| line.split_whitespace().last()?.parse::<f64>().ok());
    let slowest = figures.fold(0.0, f64::max);
    let any = text.lines().next().context("figures")?;
    Ok(Verdict {
        pass: !any.is_empty() && slowest > 0.0 && slowest <= DECISION,
        figure: format!("{slowest:.0} ns for a decision"),
        bound: format!("{DECISION:.0}"),
    })
}
