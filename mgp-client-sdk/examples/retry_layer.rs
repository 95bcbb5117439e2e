//! Retries failed calls with `RetryLayer` on a client, if a retry might help and cannot do harm (MGP §14.6).
//!
//! `cargo run -q -p mgp-client-sdk --example retry_layer`

#![expect(clippy::print_stdout, reason = "it is a program for a terminal")]

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use mgp_client_sdk::prelude::*;
use mgp_lifecycle::{RetryConfig, RetryLayer};
use mgp_server_sdk::{Server, Tool};
use mgp_transport::{Connection, duplex};
use mgp_types::mgp::RiskLevel;
use mgp_types::{Recovery, RetryStrategy};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    static RAN: AtomicU32 = AtomicU32::new(0);
    // Each tool fails twice with this code; its third call succeeds.
    let tool = |name: &str, code| {
        Tool::new(name, "Fails twice", move || async move {
            let soon = Recovery::default().retry(RetryStrategy::FixedDelay, 20, 3);
            match RAN.fetch_add(1, Relaxed) {
                0 | 1 => Err(RpcError::new(code, "not now").recovery(soon)),
                _ => Ok("done"),
            }
        })
    };
    let server = Server::new("shop", "1.0")
        .tool(tool("look", ErrorCode::UPSTREAM_TIMEOUT).risk(RiskLevel::Safe))
        .tool(tool("buy", ErrorCode::UPSTREAM_TIMEOUT).risk(RiskLevel::Moderate))
        .tool(tool("queue", ErrorCode::RATE_LIMITED).risk(RiskLevel::Moderate));
    let (here, there) = duplex();
    tokio::spawn(Connection::new(there.reader, there.writer, server.into_stack()?).run());

    let config = RetryConfig::default().on_attempt(|tried| {
        let (tool, code) = (tried.tool.unwrap_or("?"), tried.code.map(|code| code.0));
        println!("{tool}, attempt {}: {code:?}", tried.attempt);
        assert!(tried.attempt == 1 || tried.waited >= Duration::from_millis(20));
    });
    let client = Client::builder("retry_layer", "1.0")
        .layer(RetryLayer::new(config))
        .connect(here.reader, here.writer)
        .await?;
    // `look` is safe to repeat. `buy` is not repeated, because it might have run. `queue` is repeated, because its code
    // means that it did not run.
    for (tool, runs) in [("look", 3), ("buy", 1), ("queue", 3)] {
        RAN.store(0, Relaxed);
        let outcome = client.call(tool).await;
        println!("{tool}: {}", outcome.map_or_else(|error| error.to_string(), |ok| ok.to_text()));
        assert_eq!(RAN.load(Relaxed), runs, "{tool}");
    }
    Ok(())
}
