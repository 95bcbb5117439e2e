//! Finishes running calls and refuses new calls with `DrainLayer`, on a client and on a server (MGP §11.4).
//!
//! `cargo run -q -p mgp-client-sdk --example drain_layer`

#![expect(clippy::print_stdout, reason = "it is a program for a terminal")]

use std::time::Duration;

use mgp_client_sdk::prelude::*;
use mgp_lifecycle::{Drain, DrainLayer};
use mgp_server_sdk::{Server, Tool};
use mgp_transport::{Connection, duplex};
use mgp_types::mgp::{ServerState, ShutdownReason};
use tokio::time::sleep;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    for side in ["client", "server"] {
        let drain = Drain::default();
        let mut server = Server::new("clock", "1.0")
            .tool(Tool::new("now", "The time", || async { "noon" }))
            .tool(Tool::new("soon", "The time, a little later", || async {
                sleep(Duration::from_millis(100)).await;
                "afternoon"
            }))
            .tool(Tool::new("never", "Never answers", std::future::pending::<&'static str>));
        let mut client = Client::builder("drain_layer", "1.0");
        match side {
            "client" => client = client.layer(DrainLayer::new(drain.clone())),
            _ => server = server.layer(DrainLayer::new(drain.clone())),
        }
        let (here, there) = duplex();
        tokio::spawn(Connection::new(there.reader, there.writer, server.into_stack()?).run());
        let client = client.connect(here.reader, here.writer).await?;
        let draining = async {
            sleep(Duration::from_millis(30)).await;
            let time = Duration::from_millis(300);
            let remaining = drain.begin(ShutdownReason::OperatorRequest, time);
            println!("{side}: draining, {} running calls", remaining.calls);
            attempt(side, &client, "now").await;
            drain.wait_ended().await;
        };
        let (soon, never) = (attempt(side, &client, "soon"), attempt(side, &client, "never"));
        tokio::join!(soon, never, draining);
        assert_eq!(drain.state().get(), ServerState::Disconnected);
    }
    Ok(())
}

async fn attempt(side: &str, client: &Client, tool: &str) {
    match client.call(tool).await {
        Ok(result) => println!("{side}: {tool}: {}", result.to_text()),
        Err(error) => println!("{side}: {tool}: {} {}", error.code().0, error.message()),
    }
}
