//! Tests of our client programs with the workbench example as a child process.

#![cfg(unix)]

use std::process::{Command, Output};

use crate::children::example;

fn run(program: &str, words: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, .. } =
        Command::new(example("mgp-client-sdk", program)).args(words).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap())
}

#[test]
fn browse_lists_the_features_of_a_server() {
    let workbench = example("mgp-server-sdk", "workbench");
    let (code, shown) = run("browse", &[workbench.to_str().unwrap()]);
    assert_eq!(code, Some(0));
    assert!(shown.starts_with("workbench ") && shown.contains("MGP: "), "{shown}");
    for tool in ["echo", "stream", "run_code"] {
        assert!(
            shown.lines().any(|line| line.starts_with(&format!("tool      {tool}  "))),
            "{shown}"
        );
    }
    assert_eq!(run("browse", &[]).0, Some(2));
    assert_eq!(run("browse", &["true"]).0, Some(1));
}
