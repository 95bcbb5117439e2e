//! `mgp demo`: what a newcomer sees first. Each step looks at what really happened.

use std::process::Command;

use serde_json::Value;

#[test]
fn every_step_is_seen_and_nothing_is_left_behind() {
    let shown = Command::new(env!("CARGO_BIN_EXE_mgp")).args(["demo", "--json"]).output().unwrap();
    let told: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let missed: Vec<_> =
        told["steps"].as_array().unwrap().iter().filter(|step| step["ok"] != true).collect();
    assert!(missed.is_empty(), "{missed:#?}\n{}", String::from_utf8_lossy(&shown.stderr));
    assert_eq!(told["steps"].as_array().unwrap().len(), 8);
    assert_eq!(shown.status.code(), Some(0));
}

#[test]
fn an_example_that_is_not_there_is_a_mistake_of_whoever_asked() {
    let asked =
        Command::new(env!("CARGO_BIN_EXE_mgp")).args(["__example", "cat"]).output().unwrap();
    assert_eq!(asked.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&asked.stderr).contains("there are notes, unruly"));
}
