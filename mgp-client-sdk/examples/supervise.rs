//! Runs a server under supervision, and prints each change of its state.
//!
//! `cargo run -q -p mgp-client-sdk --example supervise -- COMMAND…`
//!
//! Ctrl-C drains the server and stops it with its process group. The exit code is 1 if the server failed and is not
//! restarted again.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a program for a terminal")]

use std::process::ExitCode;
use std::time::Duration;

use mgp_client_sdk::SuperviseConfig;
use mgp_client_sdk::prelude::*;
use mgp_types::mgp::{ServerState, ShutdownReason};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let Some(program) = words.next() else {
        eprintln!("usage: supervise COMMAND…");
        return Ok(ExitCode::from(2));
    };
    let mut config = SuperviseConfig::default();
    (config.max_restarts, config.backoff_base) = (3, Duration::from_millis(100));
    let builder = Client::builder("supervise", env!("CARGO_PKG_VERSION"));
    let server = builder.supervise(ChildCommand::new(program).args(words), config)?;
    let mut reports = server.reports();
    server.start().await;
    let rest = loop {
        tokio::select! {
            biased;
            Ok(report) = reports.recv() => {
                println!("{} -> {}: {}", report.from, report.to, report.reason);
            }
            rest = server.ended() => break rest,
            _ = tokio::signal::ctrl_c() => server.stop(ShutdownReason::OperatorRequest).await,
        }
    };
    Ok(if rest.state == ServerState::Error { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
