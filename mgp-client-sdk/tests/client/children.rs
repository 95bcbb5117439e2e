//! Tests of servers in child processes: they are started, called, and ended together with their process group.

#![cfg(unix)]

use std::time::Duration;

use mgp_client_sdk::{Client, EraChoice, Error, ToolResult};
pub(crate) use mgp_testkit::example;
use mgp_transport::ChildCommand;
use mgp_types::ErrorCode;
use mgp_types::mcp::Era;
use tokio::time::timeout;

use crate::script::plain;

const HELLO: &str = r#"read -r _; printf '%s\n' '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"sh","version":"1"}}}'; read -r _; "#;

/// Returns a server written in shell that completes the handshake, and then runs `script`.
fn shell(script: &str) -> ChildCommand {
    ChildCommand::new("sh")
        .args(["-c", &format!("{HELLO}{script}")])
        .close_timeout(Duration::from_millis(100))
        .term_timeout(Duration::from_millis(100))
}

/// Returns whether a process exists and is not a zombie.
fn is_alive(pid: &str) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())) else {
        return false;
    };
    !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z')
}

#[tokio::test]
async fn the_echo_server_is_started_called_and_stopped() {
    let echo = example("mgp-server-sdk", "echo");
    for era in [EraChoice::Auto, EraChoice::Legacy, EraChoice::Modern] {
        let command = ChildCommand::new(&echo);
        let client = Client::builder("test", "1").era(era).spawn(command).await.unwrap();
        assert!(client.pid().is_some());
        assert_eq!(client.server_info().unwrap().name, "echo");
        let result = client.call("echo").arg("message", "hi").await.unwrap();
        assert_eq!(result.to_text(), "hi");
        assert_eq!(client.list_tools().await.unwrap()[0].name, "echo");
        assert!(client.close().await.unwrap().is_success());
        assert!(client.is_closed());
    }
}

#[tokio::test]
async fn a_last_line_without_its_end_is_read_if_it_is_complete() {
    let answer = r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"hi"}]}}"#;
    for before in ["", r"\033[2J"] {
        let script = |text: &str| format!("read -r _; printf '{before}%s' '{text}'");
        let connect = |text: &str| plain().era(EraChoice::Legacy).spawn(shell(&script(text)));
        let client = connect(answer).await.unwrap();
        assert_eq!(client.call("echo").await.unwrap().to_text(), "hi");
        let client = connect(&answer[..answer.len() - 4]).await.unwrap();
        let error = client.call("echo").await.unwrap_err();
        assert!(error.message().starts_with("connection closed"), "{before}: {error:?}");
    }
}

#[tokio::test]
async fn a_missing_program_has_its_own_error() {
    let error = plain().spawn(ChildCommand::new("/no/such/program")).await.unwrap_err();
    assert!(matches!(error, Error::Spawn(_)));
    assert!(error.to_string().contains("did not start: No such file"), "{error}");
    assert_eq!(error.code(), ErrorCode::SERVER_NOT_READY);
}

#[tokio::test]
async fn calls_report_how_the_server_exited() {
    let client = plain().era(EraChoice::Legacy).spawn(shell("read -r _; exit 7")).await.unwrap();
    let error =
        timeout(Duration::from_secs(5), client.call("t").send()).await.unwrap().unwrap_err();
    assert_eq!(error.code(), ErrorCode::SERVER_NOT_READY);
    assert_eq!(error.message(), "connection closed: the server exited with code 7");
    assert!(client.is_closed());
    let error = client.ping().await.unwrap_err();
    assert_eq!(error.message(), "connection closed: the server exited with code 7");
    assert_eq!(client.close().await.unwrap().code, Some(7));
}

#[tokio::test]
async fn an_exit_during_the_handshake_is_reported() {
    let command = ChildCommand::new("sh").args(["-c", "read -r _; exit 3"]);
    let error = plain().era(EraChoice::Legacy).spawn(command).await.unwrap_err();
    assert!(error.to_string().contains("the server exited with code 3"), "{error}");
}

/// Servers built with older Rust SDKs exit if their first message is not `initialize`.
#[tokio::test]
async fn a_server_that_ends_at_the_probe_is_started_again_in_the_legacy_era() {
    let hello = HELLO.strip_prefix("read -r _; ").unwrap();
    let script = format!(
        r#"read -r first; case "$first" in *'"initialize"'*) ;; *) exit 1;; esac; {hello}read -r _"#
    );
    let command = ChildCommand::new("sh").args(["-c", &script]);
    let client = plain().spawn(command).await.unwrap();
    assert_eq!(client.server().era, Era::Legacy);
    assert_eq!(client.server_info().unwrap().name, "sh");
}

/// Servers built with the Python SDK 1.6 and older behave like this. A host waits eight seconds for the tools of a new
/// server.
#[tokio::test]
async fn a_server_that_is_silent_at_the_probe_and_ends_at_the_next_message_is_started_again_soon() {
    let hello = HELLO.strip_prefix("read -r _; ").unwrap();
    let script = format!(
        r#"read -r first; case "$first" in *'"initialize"'*) ;; *) read -r _; exit 1;; esac; {hello}read -r _"#
    );
    let command = ChildCommand::new("sh").args(["-c", &script]);
    let client = timeout(Duration::from_secs(8), plain().spawn(command)).await.unwrap().unwrap();
    assert_eq!(client.server().era, Era::Legacy);
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_silent_server_is_killed_with_its_group() {
    let folder = mgp_testkit::temp_dir();
    let file = folder.path().join("pids");
    let script = format!("sleep 60 & echo $$ $! > {}; wait", file.display());
    let command = ChildCommand::new("sh").args(["-c", &script]);
    let builder = plain().era(EraChoice::Legacy).init_timeout(Duration::from_secs(3));
    let error = builder.spawn(command).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::TIMEOUT);
    let pids = std::fs::read_to_string(&file).unwrap();
    assert_eq!(pids.split_whitespace().count(), 2, "{pids}");
    assert!(pids.split_whitespace().all(|pid| !is_alive(pid)), "{pids}");
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn dropping_the_client_kills_the_server() {
    let client = plain().era(EraChoice::Legacy).spawn(shell("sleep 60")).await.unwrap();
    let pid = client.pid().unwrap().to_string();
    assert!(is_alive(&pid));
    drop(client);
    mgp_testkit::until("the server is killed", async || !is_alive(&pid)).await;
}
