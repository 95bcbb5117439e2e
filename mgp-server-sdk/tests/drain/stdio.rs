//! Tests of server processes on pipes, which a signal or their parent process shuts down.

#![cfg(unix)]

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use mgp_testkit::Stopwatch;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, timeout};

use crate::drains;
use crate::world::{Received, TIMEOUT, request};

/// A running process of the example `workbench`.
struct Process {
    to: ChildStdin,
    from: Lines<BufReader<ChildStdout>>,
    child: Child,
}

impl Process {
    async fn start() -> Self {
        let mut command = Command::new(mgp_testkit::example("mgp-server-sdk", "workbench"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let to = child.stdin.take().unwrap();
        let from = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut process = Self { to, from, child };
        let mgp = json!({"version": "0.3.0", "extensions": ["lifecycle"]});
        let hello =
            mgp_testkit::hello("2025-11-25", &json!({"extensions": {"dev.cloto/mgp": mgp}}));
        process.write(&request(1_000_000, "initialize", hello)).await;
        process.receive().await.unwrap();
        process.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        process
    }

    async fn write(&mut self, message: &Value) {
        // Ignore an error: if the server has ended, the test notices it when it reads the answers.
        let _ = self.to.write_all(format!("{message}\n").as_bytes()).await;
    }

    async fn receive(&mut self) -> Option<Value> {
        let line = timeout(TIMEOUT, self.from.next_line()).await.unwrap().unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }

    async fn signal(&self, name: &str) {
        let pid = self.child.id().unwrap().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().await.unwrap().success());
    }

    async fn end(&mut self) -> ExitStatus {
        timeout(TIMEOUT, self.child.wait()).await.unwrap().unwrap()
    }

    /// Sends calls, waits until the server has accepted them, and returns the messages that arrived by then.
    async fn load(&mut self, calls: u64, ms: u64) -> Received {
        for id in 0..calls {
            self.write(&tool(id, "sleep", &json!({"ms": ms}))).await;
        }
        self.write(&tool(calls, "echo", &json!({"message": "here"}))).await;
        let mut received = Received::default();
        while !received.answers.contains_key(&calls) {
            received.take(self.receive().await.unwrap());
        }
        received
    }
}

fn tool(id: u64, name: &str, arguments: &Value) -> Value {
    request(id, "tools/call", json!({"name": name, "arguments": arguments}))
}

#[tokio::test]
async fn a_process_finishes_its_calls_and_exits_with_success() {
    for number in 0..(drains() / 10).max(20) {
        let mut process = Process::start().await;
        let mut received = process.load(10, 60).await;
        match number % 3 {
            0 => process.signal("-TERM").await,
            1 => process.signal("-INT").await,
            _ => process.write(&request(500, "mgp/lifecycle/shutdown", json!({}))).await,
        }
        // Wait for the first state notification, which shows that the shutdown has begun.
        while received.states.is_empty() {
            received.take(process.receive().await.unwrap());
        }
        for id in 600..605 {
            process.write(&tool(id, "echo", &json!({"message": "late"}))).await;
        }
        while let Some(message) = process.receive().await {
            received.take(message);
        }
        let text = |id| received.answers[&id]["result"]["content"][0]["text"].as_str();
        assert!((0..10).all(|id| text(id) == Some("slept 60 ms")), "{received:?}");
        assert!(
            (600..605).all(|id| matches!(received.code(id), Some(2001) | None)),
            "{received:?}"
        );
        assert!(
            (600..605)
                .all(|id| received.answers.get(&id).is_none_or(|one| one["error"].is_object()))
        );
        assert_eq!(received.states, ["draining", "disconnected"]);
        assert!(process.end().await.success());
    }
}

#[tokio::test]
async fn a_second_signal_ends_a_process_that_takes_too_long() {
    let mut process = Process::start().await;
    process.load(1, 60_000).await;
    process.signal("-TERM").await;
    assert_eq!(process.receive().await.unwrap()["params"]["new_state"], "draining");
    // Within a second, the other signal would count as the first one.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let begun = Instant::now();
    process.signal("-INT").await;
    assert_eq!(process.end().await.code(), Some(128 + 2));
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn two_signals_at_once_count_as_one() {
    for _ in 0..4 {
        let mut process = Process::start().await;
        process.load(1, 4_000).await;
        let begun = Stopwatch::start();
        process.signal("-TERM").await;
        assert_eq!(process.receive().await.unwrap()["params"]["new_state"], "draining");
        process.signal("-INT").await;
        let between = begun.elapsed();
        let Some(answer) = process.receive().await else {
            // The signals count as two only if a second passed between them, e.g. because the machine was suspended.
            let was_late = between + begun.paused() > Duration::from_millis(500);
            assert!(was_late, "the second signal ended the process after {between:?}");
            continue;
        };
        assert_eq!(answer["result"]["content"][0]["text"], "slept 4000 ms", "{answer}");
        while process.receive().await.is_some() {}
        assert!(process.end().await.success());
        return;
    }
    panic!("each second signal came late");
}

#[tokio::test]
async fn a_parent_that_leaves_ends_a_drain_too() {
    let mut process = Process::start().await;
    process.load(1, 60_000).await;
    process.signal("-TERM").await;
    assert_eq!(process.receive().await.unwrap()["params"]["new_state"], "draining");
    let Process { to, mut from, mut child } = process;
    drop(to);
    let begun = Instant::now();
    while timeout(TIMEOUT, from.next_line()).await.unwrap().unwrap().is_some() {}
    assert!(timeout(TIMEOUT, child.wait()).await.unwrap().unwrap().success());
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}
