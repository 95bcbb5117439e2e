//! The layers of the life of servers alone: what their examples show (MGP §11, §14.6).
//!
//! Bounds stand in `limits.rs`, the gate over a state in `supervised/program.rs`.
//!
//! Applies to: both.

use crate::run;

#[test]
fn health() {
    let expected = "healthy, {\"database\":true}\n\
        healthy to unhealthy: it says so\n\
        unhealthy to healthy: it answers again\n\
        healthy to unhealthy: it ended\n";
    assert_eq!(run("health_alone"), expected);
}

#[test]
fn a_drain_finishes_what_runs_on_either_side() {
    let said = run("drain_alone");
    let late = "2001 the server is shutting down (operator_request) and starts no new calls; use another one";
    let cut = "3003 the server shut down before the call ended; it may have had effects";
    for side in ["client", "server"] {
        let heard: Vec<_> = said.lines().filter_map(|line| line.strip_prefix(side)).collect();
        let expected = [
            ": drains, 2 calls run".to_owned(),
            format!(": now: {late}"),
            ": soon: afternoon".to_owned(),
            format!(": never: {cut}"),
        ];
        assert_eq!(heard, expected, "{side}");
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
    assert_eq!(run("retry_alone"), expected);
}

#[test]
fn a_supervisor_restarts_until_its_limit() {
    let expected = "the time: noon\n".repeat(3)
        + "error after 2 restarts: restart_limit_exceeded: 2 restarts within 300s; its task ended\n";
    assert_eq!(run("supervise_alone"), expected);
}
