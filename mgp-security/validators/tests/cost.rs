//! Measures the processor time of a judgement; the check `valid.cost` runs this with a release build.

#![expect(clippy::print_stdout, reason = "prints figures")]

mod processor_time;

use mgp_types::mgp::{CodeSafety, CodeSafetyLevel, Validator};
use mgp_validators::{CodePolicy, GuardedCall, ValidatorSet};
use processor_time::ProcessorTime;
use serde_json::json;
use std::time::Duration;

/// The number of measured judgements of each kind.
const RUNS: usize = if cfg!(debug_assertions) { 50 } else { 2_000 };

/// Returns the time limit for this build; for an unoptimised build it is two hundred times as long.
const fn bound(micros: u64) -> Duration {
    Duration::from_micros(if cfg!(debug_assertions) { micros * 200 } else { micros })
}

#[track_caller]
fn measure(name: &str, most: Duration, mut judge: impl FnMut() -> bool) {
    assert!(judge(), "{name} is allowed");
    let mut durations: Vec<Duration> = (0..RUNS)
        .map(|_| {
            let start = ProcessorTime::now();
            std::hint::black_box(judge());
            start.elapsed()
        })
        .collect();
    durations.sort_unstable();
    let p99 = durations[RUNS * 99 / 100];
    println!("cost: {name}: p50 {:?}, p99 {p99:?}", durations[RUNS / 2]);
    assert!(p99 <= most, "{name}: p99 {p99:?}, and at most {most:?}");
}

#[test]
fn a_judgement_takes_little_time() {
    let set = ValidatorSet::new();
    let command = format!("git log --format='%h %s' {}", "-- src/lib.rs \"a b\" ".repeat(50));
    let command = json!({ "command": &command[..1_024.min(command.len())].trim_end_matches(['"', ' ', 'a', 'b']) });
    let call = GuardedCall::new("run_command", &command);
    measure("a command of 1 KiB", bound(200), || set.check(&Validator::Sandbox, &call).is_ok());
    let url = json!({ "url": "https://example.com/a/b?c=d" });
    let call = GuardedCall::new("fetch", &url);
    measure("a URL", bound(200), || set.check(&Validator::NetworkRestricted, &call).is_ok());
    let python = "def f(a, b):\n    x = [i * 2 for i in range(a) if i % b]\n    return json.dumps({'x': x})\n\n";
    let javascript = "function f(a, b) { const x = [...Array(a).keys()].map(i => i * b); return JSON.stringify({ x }) }\n";
    for (language, part) in [("python", python), ("javascript", javascript)] {
        let mut rules = CodeSafety::new(CodeSafetyLevel::Standard);
        rules.language = Some(language.to_owned());
        let policy = CodePolicy::new(&rules);
        let code = part.repeat(10_000 / part.len());
        measure(&format!("10 KB of {language}"), bound(2_000), || policy.check(&code).is_ok());
    }
}
