//! Tests of `mgp demo`, whose steps check their real outcome themselves.

use std::process::Command;

use serde_json::Value;

#[test]
fn every_step_succeeds() {
    let shown = Command::new(env!("CARGO_BIN_EXE_mgp")).args(["demo", "--json"]).output().unwrap();
    let reply: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let missed: Vec<_> =
        reply["steps"].as_array().unwrap().iter().filter(|step| step["ok"] != true).collect();
    assert!(missed.is_empty(), "{missed:#?}\n{}", String::from_utf8_lossy(&shown.stderr));
    assert_eq!(reply["steps"].as_array().unwrap().len(), 8);
    assert_eq!(shown.status.code(), Some(0));
}

#[test]
fn an_unknown_example_is_invalid_usage() {
    let asked =
        Command::new(env!("CARGO_BIN_EXE_mgp")).args(["__example", "cat"]).output().unwrap();
    assert_eq!(asked.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&asked.stderr).contains("known: notes, unruly"));
}
