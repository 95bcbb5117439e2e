//! Tests of the example `echo` as a child process of real programs, with every kind of file descriptor that they pass
//! on.
//!
//! Each parent completes the handshake, calls the tool and closes the connection. It must receive its two answers and
//! nothing else, and exit code 0. A parent that is not installed is skipped with a message; with `MGP_STRICT=1`, it is
//! a failure.

#![cfg(unix)]

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"parent","version":"1"}}}"#;
const READY: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const RUNTIMES: [&str; 2] = ["current", "multi"];
/// The length of a message that does not fit into the buffers of pipes and sockets, so that both sides have to wait.
const LONG: usize = 300_000;

fn echo() -> PathBuf {
    mgp_testkit::example("mgp-server-sdk", "echo")
}

/// Returns a call with a message of this length that needs escapes.
fn call(length: usize) -> String {
    let message = format!("{}é€😀 \\n\\\"", "m".repeat(length));
    format!(
        r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"echo","arguments":{{"message":"{message}"}}}}}}"#
    )
}

/// Returns the three lines that a parent sends.
fn talk(length: usize) -> String {
    [HELLO, READY, &call(length), ""].join("\n")
}

/// Checks that the output consists of the two answers and nothing else.
#[track_caller]
fn check(output: &str, length: usize) {
    let lines: Vec<_> = output.lines().collect();
    let shown: String = output.chars().take(1_000).collect();
    assert_eq!(lines.len(), 2, "{shown}");
    assert!(output.ends_with('\n'), "{shown}");
    let [hello, called] =
        [lines[0], lines[1]].map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    assert_eq!((&hello["id"], &hello["result"]["serverInfo"]["name"]), (&1.into(), &"echo".into()));
    let text = called["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!((text.len(), text.ends_with("é€😀 \n\"")), (length + 12, true));
}

/// Waits for a process to exit successfully, and returns its stdout if that is a pipe.
#[track_caller]
fn finish(mut child: Child) -> String {
    let stdout = child.stdout.take();
    let reading = thread::spawn(move || {
        let mut output = String::new();
        stdout.map_or(Ok(0), |mut stdout| stdout.read_to_string(&mut output)).unwrap();
        output
    });
    for _ in 0..1_500 {
        if let Some(status) = child.try_wait().unwrap() {
            let output = reading.join().unwrap();
            assert!(status.success(), "{status}: {output}");
            return output;
        }
        thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("it did not end by itself");
}

/// Returns whether a program is installed; with `MGP_STRICT=1`, fails if it is not.
fn is_there(program: &str) -> bool {
    let there =
        Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if there.is_ok_and(|status| status.success()) {
        return true;
    }
    let strict = std::env::var("MGP_STRICT").is_ok_and(|strict| strict == "1");
    assert!(!strict, "`{program}` is missing and MGP_STRICT is set");
    // Write to stderr directly, because the test harness would capture the output of `eprintln!`.
    let output = format!("SKIPPED: `{program}` is not installed; a parent was not tested\n");
    std::io::stderr().write_all(output.as_bytes()).unwrap();
    false
}

/// Runs a script in another language as the parent of `echo`, once per mode; the script prints the lines that it reads.
fn parent(program: &str, flag: &str, script: &str, modes: &[&str]) {
    if !is_there(program) {
        return;
    }
    for runtime in RUNTIMES {
        for mode in modes {
            let parent = Command::new(program)
                .args([flag, script])
                .env("ECHO", echo())
                .env("RUNTIME", runtime)
                .env("MODE", mode)
                .env("HELLO", HELLO)
                .env("READY", READY)
                .env("LENGTH", LONG.to_string())
                .env("CALL", call(0))
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            check(&finish(parent), LONG);
        }
    }
}

const PYTHON: &str = r#"
import os, socket, subprocess, sys
env = os.environ
arguments = [env["ECHO"], "--rt", env["RUNTIME"]]
if env["MODE"] == "pipe":
    child = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    to, back = child.stdin, child.stdout
else:
    ours, theirs = socket.socketpair()
    child = subprocess.Popen(arguments, stdin=theirs, stdout=theirs)
    theirs.close()
    to, back = ours.makefile("wb"), ours.makefile("rb")
def write(line):
    to.write(line.encode() + b"\n")
    to.flush()
write(env["HELLO"])
lines = back.readline()
write(env["READY"])
write(env["CALL"].replace('"message":"', '"message":"' + "m" * int(env["LENGTH"])))
lines += back.readline()
to.close()
if env["MODE"] != "pipe":
    ours.shutdown(socket.SHUT_WR)
lines += back.read()
code = child.wait(20)
sys.stdout.buffer.write(lines)
sys.exit(code)
"#;

#[test]
fn python_with_pipes_and_with_one_socket() {
    parent("python3", "-c", PYTHON, &["pipe", "socket"]);
}

const NODE: &str = r#"
const { spawn } = require("node:child_process");
const env = process.env;
const child = spawn(env.ECHO, ["--rt", env.RUNTIME], { stdio: [env.MODE, env.MODE, "inherit"] });
const call = env.CALL.replace('"message":"', '"message":"' + "m".repeat(Number(env.LENGTH)));
const next = [() => child.stdin.write(env.READY + "\n" + call + "\n"), () => child.stdin.end()];
let output = "";
child.stdout.setEncoding("utf8");
child.stdout.on("data", (text) => {
  output += text;
  for (const character of text) if (character === "\n") next.shift()?.();
});
child.on("close", (code) => {
  process.stdout.write(output);
  process.exitCode = code ?? 1;
});
child.stdin.write(env.HELLO + "\n");
"#;

/// Tests both kinds of pipes of Node: `pipe` is a socket, and so is `overlapped`, which differs from it only on
/// Windows.
#[test]
fn node_with_its_sockets() {
    parent("node", "-e", NODE, &["pipe", "overlapped"]);
}

#[test]
fn a_shell_with_pipes_on_both_sides() {
    for runtime in RUNTIMES {
        // The last line of the output is the exit code of the server.
        let script = r#"{ printf '%s\n' "$HELLO" "$READY" "$CALL" | "$ECHO" --rt "$RUNTIME"; echo "code=$?"; } | cat"#;
        let shell = Command::new("sh")
            .args(["-c", script])
            .env("ECHO", echo())
            .env("RUNTIME", runtime)
            .env("HELLO", HELLO)
            .env("READY", READY)
            .env("CALL", call(20_000))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = finish(shell);
        check(output.strip_suffix("code=0\n").unwrap_or(&output), 20_000);
    }
}

/// The parent is a terminal with a user, which echoes the input and uses its own line ends.
#[test]
fn a_terminal() {
    if !is_there("script") {
        return;
    }
    for runtime in RUNTIMES {
        let command = format!("'{}' --rt {runtime}", echo().display());
        let mut script = Command::new("script")
            .args(["-qec", &command, "/dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut keys = script.stdin.take().unwrap();
        // A terminal passes its input line by line, and each line has at most 4096 bytes. The key Ctrl+D (`\u{4}`) ends
        // the input.
        let typing = thread::spawn(move || {
            keys.write_all([&talk(1_000), "\u{4}"].concat().as_bytes()).map(|()| keys)
        });
        let output = finish(script);
        drop(typing.join().unwrap().unwrap());
        let answers = output.lines().filter(|line| {
            line.starts_with(r#"{"jsonrpc":"2.0","id":"#) && line.contains(r#""result":"#)
        });
        let answers: Vec<_> = answers.map(|line| line.trim_end_matches('\r')).collect();
        check(&[answers.join("\n").as_str(), "\n"].concat(), 1_000);
    }
}
