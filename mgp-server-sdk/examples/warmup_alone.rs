//! One layer alone on a server: calls are refused with 2000 until what they need is there (MGP §11.2).
//!
//! `cargo run -q -p mgp-server-sdk --example warmup_alone -- MILLISECONDS`: so long the server takes to warm up.

use std::time::Duration;

use mgp_lifecycle::{ReadyLayer, State};
use mgp_server_sdk::prelude::*;
use mgp_types::mgp::ServerState;

/// Says what the model says.
#[tool(inline, read_only)]
fn think(about: &str) -> String {
    format!("{about}: it depends.")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let warming = std::env::args().nth(1).ok_or("usage: warmup_alone MILLISECONDS")?.parse()?;
    let state = State::new(ServerState::Connecting);
    let ready = ReadyLayer::new(state.clone());
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(warming)).await;
        // From `connecting` it may be connected; nobody else changes the state here.
        let _ = state.enter(ServerState::Connected, "the model is loaded");
    });
    Ok(Server::new("thinker", "1.0").tool(think()).layer(ready).serve_stdio().await?)
}
