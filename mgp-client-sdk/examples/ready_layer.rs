//! Lets calls pass only while a server is connected, with `ReadyLayer` on a client (MGP §11.2).
//!
//! `cargo run -q -p mgp-client-sdk --example ready_layer`

#![expect(clippy::print_stdout, reason = "it is a program for a terminal")]

use std::time::Duration;

use mgp_client_sdk::prelude::*;
use mgp_lifecycle::{ReadyLayer, StateHandle};
use mgp_server_sdk::{Server, Tool};
use mgp_transport::{Connection, duplex};
use mgp_types::mgp::ServerState;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server =
        Server::new("clock", "1.0").tool(Tool::new("now", "The time", || async { "noon" }));
    let (here, there) = duplex();
    tokio::spawn(Connection::new(there.reader, there.writer, server.into_stack()?).run());

    let state = StateHandle::new(ServerState::Connected);
    let ready = ReadyLayer::new(state.clone()).wait(Duration::from_secs(1));
    let client = Client::builder("ready_layer", "1.0")
        .server_id("clock")
        .layer(ready)
        .connect(here.reader, here.writer)
        .await?;
    attempt("connected", &client).await;

    state.enter(ServerState::Draining, "configuration_change")?;
    attempt("draining", &client).await;

    // A call during a restart waits for the end of the restart, up to the layer's limit.
    state.enter(ServerState::Restarting, "configuration_change")?;
    let restarting = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        state.enter(ServerState::Connected, "ready").map(drop)
    };
    let ((), restarted) = tokio::join!(attempt("restarting", &client), restarting);
    restarted?;

    state.enter(ServerState::Error, "exited with code 1")?;
    attempt("error", &client).await;
    Ok(())
}

async fn attempt(state: &str, client: &Client) {
    match client.call("now").await {
        Ok(result) => println!("{state}: {}", result.to_text()),
        Err(error) => println!("{state}: refused, {} {}", error.code().0, error.message()),
    }
}
