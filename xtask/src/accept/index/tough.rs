//! `index.tough`: the index under kills, threads, a million changes and hostile definitions; sessions of two callers.

use crate::{
    accept::Verdict,
    run::{Outcome, Program},
};

/// How often the process that indexes is killed.
const KILLS: &str = "100";

/// How many tools are added and removed again.
const CHANGES: &str = "1000000";

/// How often each of some servers comes and goes while eight threads search.
const ROUNDS: &str = "500";

/// How many steps callers take who share what can be shared.
const STEPS: &str = "20000";

/// Runs the stories of the index, as many times over as is asked of it, as users build it.
pub(in crate::accept) fn tough() -> Outcome<Verdict> {
    let test = ["test", "--release", "--package", "mgp-toolindex", "--test", "tough", "--"];
    let (success, text) = Program::cargo(&test)
        .args(&["--show-output", "--test-threads=1"])
        .env("KILLS", KILLS)
        .env("CHANGES", CHANGES)
        .env("ROUNDS", ROUNDS)
        .env("STEPS", STEPS)
        .tee()?;
    let said: Vec<_> =
        text.lines().filter_map(|line| line.trim().strip_prefix("tough: ")).collect();
    // A story that said nothing did not run.
    let pass = success && said.len() >= STORIES;
    let bound = format!("{STORIES} stories, all passed");
    Ok(Verdict { pass, figure: said.join("; "), bound })
}

/// How many stories say what they measured.
const STORIES: usize = 5;
