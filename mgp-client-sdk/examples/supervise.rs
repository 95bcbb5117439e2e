//! Runs a server under supervision and prints each change of its state as a line of JSON.
//!
//! `supervise --policy FILE.json -- COMMAND…`
//!
//! The file contains the restart configuration of MGP §11.5; missing members have their defaults, unknown members are
//! ignored:
//!
//! ```json
//! {"restart_policy": "on_failure", "max_restarts": 5, "restart_window_secs": 300,
//!  "backoff_base_ms": 1000, "backoff_max_ms": 30000}
//! ```
//!
//! A line is `{"t_ms":…,"from":…,"to":…,"restarts":…,"reason":…}`.
//! SIGTERM and SIGINT drain the server and stop it with its process group; a second signal stops it at once.
//! If the output is not read, lines are dropped; the next line shows the current number of restarts.
//!
//! The exit code is 0 if the server was stopped or exited normally, 1 if the server failed and is not restarted or if a
//! second signal killed it, and 2 for invalid usage or an invalid file.

#![expect(clippy::print_stderr, reason = "it is a program for a terminal")]

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use mgp_client_sdk::prelude::*;
use mgp_client_sdk::{StateReport, SuperviseConfig};
use mgp_types::Object;
use mgp_types::mgp::{RestartConfig, RestartPolicy, ServerState, ShutdownReason};
use serde_json::json;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

/// The maximum number of lines that are buffered for the reader.
const LINES: usize = 1_024;

const USAGE: &str = "usage: supervise --policy FILE.json -- COMMAND…";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let (config, command) = match options(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(wrong) => {
            eprintln!("{wrong}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(config, command).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

async fn run(
    config: SuperviseConfig,
    command: ChildCommand,
) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let builder = Client::builder("supervise", env!("CARGO_PKG_VERSION"));
    let server = builder.supervise(command, config)?;
    let mut asked = signals()?;
    let mut reports = server.reports();
    let (lines, written) = printer();
    server.start().await;
    let stopping = async {
        asked.recv().await;
        tokio::select! {
            () = server.stop(ShutdownReason::OperatorRequest) => std::future::pending().await,
            _ = asked.recv() => {}
        }
    };
    tokio::pin!(stopping);
    let rest = loop {
        tokio::select! {
            biased;
            report = reports.recv() => match report {
                Ok(report) => print(&lines, &report),
                // Reports were dropped; the next one shows the number of restarts.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => break server.ended().await,
            },
            rest = server.ended() => break rest,
            // Dropping the server kills it.
            () = &mut stopping => return Ok(ExitCode::FAILURE),
        }
    };
    loop {
        match reports.try_recv() {
            Ok(report) => print(&lines, &report),
            Err(TryRecvError::Lagged(_)) => {}
            Err(TryRecvError::Empty | TryRecvError::Closed) => break,
        }
    }
    drop(lines);
    // Wait for a limited time only: a reader that never reads must not block the exit.
    let _ = written.recv_timeout(Duration::from_secs(1));
    let failed = rest.limit.is_some() || rest.state == ServerState::Error;
    // If the server was stopped while it waited for its next start, its state is still that of the last failure.
    let stopped = rest.reason.as_ref() == ShutdownReason::OperatorRequest.as_str();
    Ok(if failed && !stopped { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Returns a channel that receives the stop requests of the operator (SIGTERM and SIGINT).
fn signals() -> std::io::Result<tokio::sync::mpsc::Receiver<()>> {
    let (tell, asked) = tokio::sync::mpsc::channel(1);
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
            let (mut heard, tell) = (signal(kind)?, tell.clone());
            tokio::spawn(async move {
                while heard.recv().await.is_some() && tell.send(()).await.is_ok() {}
            });
        }
    }
    #[cfg(not(unix))]
    tokio::spawn(async move {
        while tokio::signal::ctrl_c().await.is_ok() && tell.send(()).await.is_ok() {}
    });
    Ok(asked)
}

fn options(
    mut words: impl Iterator<Item = String>,
) -> Result<(SuperviseConfig, ChildCommand), String> {
    let mut config = None;
    while let Some(word) = words.next() {
        match word.as_str() {
            "--policy" => {
                let file = words.next().ok_or("`--policy` needs a file")?;
                config = Some(policy(Path::new(&file)).map_err(|why| format!("{file}: {why}"))?);
            }
            "--" => {
                let program = words.next().ok_or("the server's command is missing")?;
                let config = config.ok_or("`--policy` is missing")?;
                return Ok((config, ChildCommand::new(program).args(words)));
            }
            word => return Err(format!("unknown flag `{word}`")),
        }
    }
    Err("`--` and the server's command are missing".to_owned())
}

fn policy(file: &Path) -> Result<SuperviseConfig, String> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    let members: Object = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    for (name, value) in members.iter() {
        let mut alone = Object::new();
        alone.insert(name, value.clone());
        let alone = serde_json::to_string(&alone).map_err(|error| error.to_string())?;
        if let Err(error) = serde_json::from_str::<RestartConfig>(&alone) {
            let error = error.to_string();
            // Remove the position: it is relative to this member, so the user cannot use it.
            let why = error.split(" at line ").next().unwrap_or_default();
            return Err(format!("`{name}`: {why}"));
        }
    }
    let config: RestartConfig = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    if let Some(RestartPolicy::Other(word)) = &config.restart_policy {
        eprintln!(
            "{}: unknown policy `{word}` counts as `never`; known: never, on_failure, always",
            file.display()
        );
    }
    Ok(SuperviseConfig::from(&config))
}

/// Writes lines from a thread of its own, so that a stalled reader cannot stop the supervision.
fn printer() -> (SyncSender<String>, Receiver<()>) {
    let (lines, taken) = sync_channel::<String>(LINES);
    let (done, written) = sync_channel(1);
    std::thread::spawn(move || {
        for line in taken {
            // A closed pipe is not an error.
            let _ = writeln!(std::io::stdout(), "{line}");
        }
        let _ = done.send(());
    });
    (lines, written)
}

fn print(lines: &SyncSender<String>, report: &StateReport) {
    let line = json!({
        "t_ms": u64::try_from(report.elapsed.as_millis()).unwrap_or(u64::MAX),
        "from": report.from,
        "to": report.to,
        "restarts": report.restarts,
        "reason": &*report.reason,
    });
    // Ignore the error: the buffer is full because the output is not read.
    let _ = lines.try_send(line.to_string());
}
