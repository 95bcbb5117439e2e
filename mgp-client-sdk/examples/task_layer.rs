//! Lets a slow call outlive its request as a task, with `TasksLayer` on a server (MCP tasks).
//!
//! `cargo run -q -p mgp-client-sdk --example task_layer`

#![expect(clippy::print_stdout, reason = "it is a program for a terminal")]

use std::time::Duration;

use mgp_client_sdk::prelude::*;
use mgp_lifecycle::{HandshakeLayer, ServerOffer, TasksConfig, TasksLayer};
use mgp_transport::{Connection, duplex};
use mgp_types::Payload;
use mgp_types::mcp::{Implementation, TaskSupport};
use mgp_types::service::{Reply, Stack};
use tower_layer::Layer;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The tool itself knows nothing about tasks; the layer turns its call into a task.
    let dig = Stack::from_fn(|_| async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        Ok(Reply::raw(Payload::from_trusted(r#"{"content":[{"type":"text","text":"gold"}]}"#)))
    });
    let mut config = TasksConfig::default();
    (config.grace, config.poll_interval) = (Duration::from_millis(10), Duration::from_millis(20));
    let tasks = TasksLayer::new(config, |_tool| TaskSupport::Optional);
    let mut offer = ServerOffer::new(Implementation::new("mine", "1.0"));
    offer.tasks = true;
    let stack = Stack::new(HandshakeLayer::new(offer).layer(tasks.layer(dig)));
    let (here, there) = duplex();
    tokio::spawn(Connection::new(there.reader, there.writer, stack).run());

    let client = Client::builder("task_layer", "1.0").connect(here.reader, here.writer).await?;
    let looking = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        println!("running tasks: {}", tasks.running());
        assert_eq!(tasks.running(), 1);
    };
    let (found, ()) = tokio::join!(async { client.call("dig").await }, looking);
    println!("found: {}", found?.to_text());
    println!("running tasks: {}, kept: {}", tasks.running(), tasks.kept());
    Ok(())
}
