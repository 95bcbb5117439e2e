//! Tests of the output of the examples of lifecycle layers (MGP §11, §14.6).
//!
//! `limits.rs` tests the examples of limits, and `supervised/program.rs` the example of the ready layer.

use super::run;

#[test]
fn health() {
    let expected = "healthy, {\"database\":true}\n\
        healthy to unhealthy: it reports this status\n\
        unhealthy to healthy: it answers again\n\
        healthy to unhealthy: it ended\n";
    assert_eq!(run("health_monitor"), expected);
}

#[test]
fn a_drain_finishes_what_runs_on_either_side() {
    let output = run("drain_layer");
    let expected =
        [": draining, 2 running calls", ": now: 2001", ": soon: afternoon", ": never: 3003"];
    for side in ["client", "server"] {
        let found: Vec<_> = output.lines().filter_map(|line| line.strip_prefix(side)).collect();
        assert_eq!(found.len(), expected.len(), "{output}");
        for (line, begins) in found.into_iter().zip(expected) {
            assert!(line.starts_with(begins), "{line}");
        }
    }
}

#[test]
fn a_retry_repeats_what_may_be_repeated() {
    let expected = "look, attempt 1: Some(5001)\n\
        look, attempt 2: Some(5001)\n\
        look, attempt 3: None\n\
        look: done\n\
        buy, attempt 1: Some(5001)\n\
        buy: not now (5001)\n\
        queue, attempt 1: Some(3000)\n\
        queue, attempt 2: Some(3000)\n\
        queue, attempt 3: None\n\
        queue: done\n";
    assert_eq!(run("retry_layer"), expected);
}

#[test]
fn a_supervisor_restarts_until_its_limit() {
    let expected = "the time: noon\n".repeat(3)
        + "error after 2 restarts: restart_limit_exceeded: 2 restarts within 300 s; its task ended\n";
    assert_eq!(run("supervise_in_memory"), expected);
}

#[test]
fn a_task_outlives_its_request() {
    let expected = "running tasks: 1\nfound: gold\nrunning tasks: 0, kept: 1\n";
    assert_eq!(run("task_layer"), expected);
}

#[test]
fn a_tool_asks_in_either_era() {
    let expected = "Who are you?\nLegacy: Hello, Ann!\nWho are you?\nModern: Hello, Ann!\n";
    assert_eq!(run("ask_caller"), expected);
}
