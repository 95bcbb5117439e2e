//! `life.drain`: a thousand servers end under load; whatever they accepted is answered, and an idle one is gone at once.
//!
//! Most are in this process, over the SDK's own streams; a hundred are processes that get a signal or are asked,
//! and a hundred listen at a URL.

use super::super::Verdict;
use crate::run::{Outcome, Program};

/// How many drains.
const DRAINS: &str = "1000";

/// Runs the stories, one after the other so that none disturbs the times of another.
pub(in crate::accept) fn drain() -> Outcome<Verdict> {
    // The stories with processes start examples.
    Program::cargo(&["build", "--package", "mgp-server-sdk", "--examples"]).run()?;
    let test = ["test", "--package", "mgp-server-sdk", "--test", "drain", "--"];
    let test = Program::cargo(&test).args(&["--show-output", "--test-threads=1"]);
    let (success, text) = test.env("DRAINS", DRAINS).tee()?;
    let said = |word: &str| {
        let line = text.lines().map(str::trim).find(|line| line.starts_with(word));
        line.map(str::to_owned)
    };
    let figures = [said(&format!("{DRAINS} drains:")), said("idle:")];
    // A story that said nothing did not run.
    let pass = success && figures.iter().all(Option::is_some);
    let figure = figures.into_iter().flatten().collect::<Vec<_>>().join("; ");
    let bound = "no accepted call lost, none accepted late, idle p99 50 ms".to_owned();
    Ok(Verdict { pass, figure, bound })
}
