//! Children written in shell and examples of this workspace, and a view of the running processes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use mgp_client_sdk::{Client, ClientBuilder, EraChoice, SuperviseConfig, SupervisedClient};
use mgp_testkit::example;
use mgp_transport::ChildCommand;
use mgp_types::mgp::{AuditEvent, RestartPolicy};
use mgp_types::service::MemoryAudit;
use tokio::time::timeout;

pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

/// Returns the command of the server `echo`, whose only tool repeats its input.
pub(crate) fn echo() -> ChildCommand {
    ChildCommand::new(example("mgp-server-sdk", "echo"))
}

/// Shell commands with which a server completes the handshake.
pub(crate) const HELLO: &str = r#"read -r _; printf '%s\n' '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"sh","version":"1"}}}'; read -r _; "#;

/// Returns the command for a shell script that gets little time to exit.
pub(crate) fn script(text: &str) -> ChildCommand {
    ChildCommand::new("sh")
        .args(["-c", text])
        .close_timeout(Duration::from_millis(100))
        .term_timeout(Duration::from_millis(100))
}

/// Returns a server in shell that completes the handshake, and then runs `then`.
pub(crate) fn hello(then: &str) -> ChildCommand {
    script(&format!("{HELLO}{then}"))
}

/// Returns the shell command that answers the request with this id.
pub(crate) fn answer(id: u32) -> String {
    format!(
        r#"printf '%s\n' '{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"done"}}]}}}}'; "#
    )
}

/// Returns settings for quick restarts, of which there are at most `max_restarts`.
pub(crate) fn quick(max_restarts: u32) -> SuperviseConfig {
    let mut config = SuperviseConfig::default();
    config.max_restarts = max_restarts;
    config.backoff_base = Duration::from_millis(5);
    config.backoff_max = Duration::from_millis(10);
    config
}

pub(crate) fn always(max_restarts: u32) -> SuperviseConfig {
    let mut config = quick(max_restarts);
    config.policy = RestartPolicy::Always;
    config
}

/// Returns the builder of a legacy client for a server named `files`, and the client's audit log.
pub(crate) fn recorded() -> (ClientBuilder, Arc<MemoryAudit>) {
    let log = Arc::new(MemoryAudit::new());
    let builder = Client::builder("test", "1").era(EraChoice::Legacy).server_id("files");
    (builder.audit(Arc::<MemoryAudit>::clone(&log)), log)
}

pub(crate) fn recorded_events(log: &MemoryAudit) -> Vec<(String, String)> {
    let words = |event: &AuditEvent| {
        (event.event_type.as_str().to_owned(), event.result.as_str().to_owned())
    };
    log.events().iter().map(words).collect()
}

/// Kills the server process of the current run, and no other process of its tree.
pub(crate) fn kill(client: &Client) {
    let pid = client.pid().unwrap().to_string();
    assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
}

/// Waits until a server is connected after at least `restarts` restarts.
pub(crate) async fn again(server: &SupervisedClient, restarts: u64) -> Client {
    let waiting = async {
        loop {
            let client = server.ready().await.unwrap();
            if server.restarts() >= restarts && !client.is_closed() {
                return client;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(WAIT_TIMEOUT, waiting).await.unwrap()
}

/// Returns whether a process exists and is not a zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    stat(&PathBuf::from(format!("/proc/{pid}"))).is_some_and(|(state, _)| state != 'Z')
}

pub(crate) fn stat(process: &Path) -> Option<(char, u32)> {
    let text = std::fs::read_to_string(process.join("stat")).ok()?;
    let mut words = text.rsplit(')').next()?.split_whitespace();
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}
