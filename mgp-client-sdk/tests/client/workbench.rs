//! Our client programs with the workbench example as a child process.

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

#[test]
fn a_server_that_exits_is_an_error_with_its_status() {
    let workbench = example("mgp-server-sdk", "workbench");
    let workbench = workbench.to_str().unwrap();
    for (flags, tool, arguments, status) in [
        (&["--exit-after", "0"][..], "echo", r#"{"message":"hi"}"#, "3"),
        (&[], "exit", r#"{"code":7}"#, "7"),
    ] {
        let words = [&["--json", "--", workbench], flags, &[tool, arguments]].concat();
        let (code, output) = run("call_tool", &words);
        assert_eq!(code, Some(1), "{output}");
        let last = output.lines().last().unwrap();
        assert!(last.contains("\"error\"") && last.contains(status), "{last}");
    }
    let words = ["--json", "--", workbench, "--exit-after", "1", "echo", r#"{"message":"hi"}"#];
    assert_eq!(run("call_tool", &words).0, Some(0));
    let words = ["--json", "--", workbench, "--ready-after", "50", "echo", r#"{"message":"hi"}"#];
    assert_eq!(run("call_tool", &words).0, Some(0));
    let words = ["--timeout", "300", "--json", "--", workbench, "--hang-init", "echo", "{}"];
    assert_eq!(run("call_tool", &words).0, Some(1));
}
