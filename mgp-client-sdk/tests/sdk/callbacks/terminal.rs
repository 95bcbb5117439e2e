//! Tests of two examples: a server over stdio that asks questions, and a client that answers them in the terminal.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use mgp_testkit::example;

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
        // The program asks again after an answer that is not one of the options.
        ("a week\na year\nyes\nconfirm\n", "3 files older than a year were deleted"),
    ] {
        let output = answered(lines);
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{shown} {}", String::from_utf8_lossy(&output.stderr));
        assert!(shown.contains("Delete files of which age?"), "{shown}");
        assert!(shown.contains(text), "{shown}");
    }
    // An empty line or the end of the input must not count as a yes.
    for lines in ["a year\n\n", "a year\n", ""] {
        let output = answered(lines);
        let failure = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && failure.contains("3003"), "{failure}");
        assert!(!String::from_utf8_lossy(&output.stdout).contains("were deleted"));
    }
}

/// The server is killed while the person has not answered.
#[test]
#[cfg(target_os = "linux")]
fn a_failure_ends_the_program_while_it_reads_from_the_terminal() {
    use mgp_testkit::{temp_dir, until_blocking};

    let folder = temp_dir();
    let server = folder.path().join("server");
    let script = r#"printf '#!/bin/sh\nexec timeout -s KILL 2 "%s"\n' "$2" >"$1" && chmod +x "$1""#;
    let mut write = Command::new("sh");
    write.args(["-c", script, "sh"]).arg(&server).arg(example("mgp-server-sdk", "confirm"));
    assert!(write.status().unwrap().success());
    let mut client = Command::new(example("mgp-client-sdk", "answer_callbacks"))
        .arg(&server)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let terminal = client.stdin.take();
    until_blocking("the program ends", || client.try_wait().unwrap().is_some());
    drop(terminal);
    let output = client.wait_with_output().unwrap();
    assert!(!output.status.success() && !output.stderr.is_empty());
}
