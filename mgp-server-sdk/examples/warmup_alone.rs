//! A server with a single layer, which refuses calls with code 2000 (server not ready) until the server is ready (MGP
//! §11.2).
//!
//! `cargo run -q -p mgp-server-sdk --example warmup_alone -- MILLISECONDS` sets the time to warm up.

use std::time::Duration;

use mgp_lifecycle::{ReadyLayer, StateHandle};
use mgp_server_sdk::prelude::*;
use mgp_types::mgp::ServerState;

/// Asks the model.
#[tool(inline, read_only)]
fn think(about: &str) -> String {
    format!("{about}: it depends.")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let warming = std::env::args().nth(1).ok_or("usage: warmup_alone MILLISECONDS")?.parse()?;
    let state = StateHandle::new(ServerState::Connecting);
    let ready = ReadyLayer::new(state.clone());
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(warming)).await;
        // The result is ignored: the transition from `connecting` is valid, and nothing else changes the state here.
        let _ = state.enter(ServerState::Connected, "the model is loaded");
    });
    Ok(Server::new("thinker", "1.0").tool(think()).layer(ready).serve_stdio().await?)
}
