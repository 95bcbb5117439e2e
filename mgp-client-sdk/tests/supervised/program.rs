//! Tests of the example program `supervise`, and of the ready layer without the other layers.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mgp_client_sdk::{Client, ToolResult};
use mgp_testkit::example;
use mgp_transport::ChildCommand;
use tokio::time::Instant;

use crate::world::is_alive;

fn supervise(command: &[&str]) -> Child {
    let mut program = Command::new(example("mgp-client-sdk", "supervise"));
    program.args(command).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_crash_loop_is_printed_and_exits_with_1() {
    let ended = supervise(&["sh", "-c", "exit 3"]).wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let output = String::from_utf8(ended.stdout).unwrap();
    assert!(output.starts_with("registered -> connecting"), "{output}");
    assert_eq!(output.matches(" -> connecting").count(), 4, "{output}");
    assert!(output.lines().last().unwrap().contains("restart_limit_exceeded"), "{output}");
    assert_eq!(supervise(&[]).wait_with_output().unwrap().status.code(), Some(2));
}

#[test]
fn an_interrupt_stops_the_tree_and_exits_with_0() {
    let folder = mgp_testkit::temp_dir();
    let file = folder.path().join("pids");
    let echo = example("mgp-server-sdk", "echo");
    let server = format!("sleep 60 & echo $$ $! > {}; exec {}", file.display(), echo.display());
    let mut running = supervise(&["sh", "-c", &server]);
    let mut output = BufReader::new(running.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains(" -> connected") {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0);
    }
    let pid = running.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let rest: Vec<_> = output.lines().map(Result::unwrap).collect();
    assert_eq!(running.wait().unwrap().code(), Some(0));
    assert!(rest.len() == 2 && rest[1].starts_with("draining -> disconnected"), "{rest:?}");
    let pids = std::fs::read_to_string(&file).unwrap();
    assert_eq!(pids.split_whitespace().count(), 2);
    assert!(pids.split_whitespace().all(|pid| !is_alive(pid.parse().unwrap())), "{pids}");
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
    let server = ChildCommand::new(example("mgp-server-sdk", "warmup_alone")).arg("6000");
    let client = Client::builder("test", "1").spawn(server).await.unwrap();
    let ask = || async { client.call("think").arg("about", "life").await };
    let error = ask().await.unwrap_err();
    assert_eq!((error.code().0, error.is_retryable()), (2000, true));
    assert_eq!(error.message(), "the server is starting; try again in a moment");
    let until = Instant::now() + Duration::from_secs(30);
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
