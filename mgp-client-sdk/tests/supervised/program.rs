//! The example `supervise`: its output, its exit codes, and its reaction to signals.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mgp_client_sdk::{Client, ToolResult};
use mgp_testkit::example;
use mgp_transport::ChildCommand;
use serde_json::Value;
use tokio::time::Instant;

use crate::world::is_alive;

/// A file with a policy.
struct Policy {
    path: PathBuf,
    _folder: mgp_testkit::TempDir,
}

impl Policy {
    fn new(text: &str) -> Self {
        let folder = mgp_testkit::temp_dir();
        let path = folder.path().join("policy.json");
        std::fs::write(&path, text).unwrap();
        Self { path, _folder: folder }
    }
}

fn supervise(policy: &Policy, command: &[&str]) -> Child {
    Command::new(example("mgp-client-sdk", "supervise"))
        .arg("--policy")
        .arg(&policy.path)
        .arg("--")
        .args(command)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_crash_loop_is_printed_line_by_line_and_exits_with_1() {
    // Unknown members of the policy are ignored; missing members have their default values.
    let policy = Policy::new(
        r#"{"restart_policy":"on_failure","max_restarts":2,"backoff_base_ms":5,"backoff_max_ms":9,"x":1}"#,
    );
    let ended = supervise(&policy, &["sh", "-c", "exit 3"]).wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let lines = lines(&String::from_utf8(ended.stdout).unwrap());
    let words: Vec<_> = lines
        .iter()
        .map(|line| (line["from"].as_str().unwrap(), line["to"].as_str().unwrap()))
        .collect();
    assert_eq!(words[0], ("registered", "connecting"));
    assert!(words.windows(2).all(|pair| pair[0].1 == pair[1].0), "{words:?}");
    assert_eq!(words.iter().filter(|(_, to)| *to == "connecting").count(), 3);
    let last = lines.last().unwrap();
    assert_eq!((last["to"].as_str(), last["restarts"].as_u64()), (Some("error"), Some(2)));
    let reason = last["reason"].as_str().unwrap();
    assert!(reason.contains("restart_limit_exceeded"), "{reason}");
    let times: Vec<_> = lines.iter().map(|line| line["t_ms"].as_u64().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[test]
fn a_signal_stops_the_tree_and_exits_with_0() {
    let policy = Policy::new("{}");
    let echo = example("mgp-server-sdk", "echo");
    for signal in ["-TERM", "-INT"] {
        let file = std::env::temp_dir().join(format!("mgp-tree{signal}-{}", std::process::id()));
        let (tree, echo) = (file.display(), echo.display());
        let server = format!("sleep 60 & echo $$ $! > {tree}; exec {echo}");
        let mut running = supervise(&policy, &["sh", "-c", &server]);
        let mut output = BufReader::new(running.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains(r#""to":"connected""#) {
            line.clear();
            assert_ne!(output.read_line(&mut line).unwrap(), 0);
        }
        let pid = running.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        let mut rest = String::new();
        while output.read_line(&mut rest).unwrap() > 0 {}
        assert_eq!(running.wait().unwrap().code(), Some(0));
        let words: Vec<_> =
            lines(&rest).iter().map(|line| line["to"].as_str().unwrap().to_owned()).collect();
        assert_eq!(words, ["draining", "disconnected"]);
        let pids = std::fs::read_to_string(&file).unwrap();
        assert_eq!(pids.split_whitespace().count(), 2);
        assert!(pids.split_whitespace().all(|pid| !is_alive(pid.parse().unwrap())), "{pids}");
    }
}

#[test]
fn a_signal_ends_a_long_wait_for_the_next_start() {
    let policy = Policy::new(r#"{"backoff_base_ms":60000,"backoff_max_ms":60000}"#);
    let mut running = supervise(&policy, &["sh", "-c", "exit 3"]);
    let mut output = BufReader::new(running.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains(r#""to":"restarting""#) {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0);
    }
    let begun = Instant::now();
    let pid = running.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(running.wait().unwrap().code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_second_signal_ends_a_long_stop() {
    let policy = Policy::new("{}");
    let file = std::env::temp_dir().join(format!("mgp-hurry-{}", std::process::id()));
    let stubborn = format!("trap '' TERM; echo $$ > {}; while :; do sleep 1; done", file.display());
    let mut running = supervise(&policy, &["sh", "-c", &stubborn]);
    let server: u32 = within_30s(|| std::fs::read_to_string(&file).ok()?.trim().parse().ok());
    let pid = running.id().to_string();
    let tell = || assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    tell();
    // The system merges two signals that arrive at once.
    std::thread::sleep(Duration::from_millis(300));
    let begun = Instant::now();
    tell();
    assert_eq!(running.wait().unwrap().code(), Some(1));
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    within_30s(|| (!is_alive(server)).then_some(()));
}

#[test]
fn a_reader_that_stalls_stops_neither_restarts_nor_signals() {
    let policy = Policy::new(
        r#"{"restart_policy":"always","max_restarts":10000,"backoff_base_ms":0,"backoff_max_ms":0}"#,
    );
    let file = std::env::temp_dir().join(format!("mgp-stall-{}", std::process::id()));
    let server = format!("echo >> {}; exit 1", file.display());
    let mut running = supervise(&policy, &["sh", "-c", &server]);
    // Wait until there were so many starts that their output, about 300 bytes each, fills a pipe of 64 KiB.
    within_30s(|| (std::fs::metadata(&file).ok()?.len() > 400).then_some(()));
    let pid = running.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let ended = within_30s(|| running.try_wait().unwrap());
    assert_eq!(ended.code(), Some(0));
}

/// Waits until `look` returns a value, and returns it; fails after 30 seconds.
fn within_30s<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "it took too long");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn invalid_usage_is_reported_and_exits_with_2() {
    let check = |policy: &Policy, expected: &str| {
        let ended = supervise(policy, &["true"]).wait_with_output().unwrap();
        let output = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(2), "{output}");
        assert!(output.contains(expected), "{output}");
    };
    check(&Policy::new("never"), "expected");
    let many = r#"{"restart_policy":"never","max_restarts":"many"}"#;
    check(&Policy::new(many), r#"`max_restarts`: invalid type: string "many", expected u32"#);
    check(&Policy::new(r#"{"backoff_base_ms":-1}"#), "`backoff_base_ms`: invalid value");
    let alone = Command::new(example("mgp-client-sdk", "supervise")).output().unwrap();
    assert_eq!(alone.status.code(), Some(2));
    assert!(String::from_utf8(alone.stderr).unwrap().contains("usage: supervise"));
}

#[test]
fn an_unknown_policy_never_restarts() {
    let policy = Policy::new(r#"{"restart_policy":"sometimes"}"#);
    let ended = supervise(&policy, &["sh", "-c", "exit 3"]).wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(String::from_utf8(ended.stderr).unwrap().contains("`sometimes` counts as `never`"));
    let lines = lines(&String::from_utf8(ended.stdout).unwrap());
    assert_eq!(lines.last().unwrap()["restarts"], 0);
}

#[test]
fn the_ready_layer_alone_on_a_client() {
    let output = Command::new(example("mgp-client-sdk", "ready_layer")).output().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let expected = "connected: noon\n\
        draining: refused, 2001 server `clock` is draining and takes no new calls\n\
        restarting: noon\n\
        error: refused, 2000 server `clock` failed: exited with code 1; restart it once the cause is gone\n";
    assert_eq!(output, expected);
}

#[tokio::test]
async fn the_ready_layer_alone_on_a_server() {
    let server = ChildCommand::new(example("mgp-server-sdk", "warmup_alone")).arg("2000");
    let client = Client::builder("test", "1").spawn(server).await.unwrap();
    let ask = || async { client.call("think").arg("about", "life").await };
    let error = ask().await.unwrap_err();
    assert_eq!((error.code().0, error.is_retryable()), (2000, true));
    assert_eq!(error.message(), "the server is starting; try again in a moment");
    let until = Instant::now() + Duration::from_secs(10);
    let answer = loop {
        match ask().await {
            Ok(answer) => break answer,
            Err(_) => assert!(Instant::now() < until),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(answer.to_text(), "life: it depends.");
    client.close().await;
}
