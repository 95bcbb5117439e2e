//! The two examples: a server over stdio that asks, and a client that answers in the terminal.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Returns the path of an example; builds it if necessary.
fn example(package: &str, name: &str) -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.push("examples");
    path.push(name);
    if !path.exists() {
        let build = ["build", "-q", "-p", package, "--example", name];
        assert!(Command::new(env!("CARGO")).args(build).status().unwrap().success());
    }
    path
}

/// Runs the client; `lines` are the lines that the person types in the terminal.
fn answered(lines: &str) -> Output {
    let mut client = Command::new(example("mgp-client-sdk", "answer_callbacks"))
        .arg(example("mgp-server-sdk", "confirm"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    client.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    client.wait_with_output().unwrap()
}

#[test]
fn a_person_confirms_in_the_terminal_or_nothing_happens() {
    for (lines, text) in [
        ("a year\nconfirm\n", "3 files older than a year were deleted"),
        ("a month\ncancel\n", "nothing was deleted"),
    ] {
        let output = answered(lines);
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{shown} {}", String::from_utf8_lossy(&output.stderr));
        assert!(shown.contains("Delete files of which age?"), "{shown}");
        assert!(shown.contains(text), "{shown}");
    }
    // An empty line or the end of the input is not a yes.
    for lines in ["a year\n\n", "a year\n", ""] {
        let output = answered(lines);
        let failure = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && failure.contains("3003"), "{failure}");
        assert!(!String::from_utf8_lossy(&output.stdout).contains("were deleted"));
    }
}
