//! `kernel.chaos`: the kernel or its child is killed under load, and most of many servers are broken.

use super::examples;
use crate::{
    accept::Verdict,
    run::{Outcome, Program},
};

/// How often something is killed.
const ROUNDS: &str = "200";

/// Kills, then servers that are broken in every way.
pub(in crate::accept) fn chaos() -> Outcome<Verdict> {
    examples()?;
    let test = ["test", "--package", "mgp", "--test", "run", "--"];
    // One after the other, so that none disturbs the times of another.
    let test = Program::cargo(&test).args(&["chaos::", "broken::", "--show-output"]);
    let test = test.args(&["--test-threads=1"]).env("ROUNDS", ROUNDS);
    let (success, text) = test.tee()?;
    let said = |word: &str| {
        let line = text.lines().map(str::trim).find(|line| line.starts_with(word));
        line.map(str::to_owned)
    };
    let figures = [said(&format!("{ROUNDS} rounds:")), said("200 servers:")];
    // A story that said nothing did not run.
    let pass = success && figures.iter().all(Option::is_some);
    Ok(Verdict {
        pass,
        figure: figures.into_iter().flatten().collect::<Vec<_>>().join("; "),
        bound: "nothing acknowledged lost, ready again p99 2 s, nothing left; 50 of 200 work"
            .to_owned(),
    })
}
