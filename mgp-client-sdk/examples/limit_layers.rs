//! Limits rate, quota, sizes, concurrency and time with one layer each, on a client and on a server (MGP §14.3).
//!
//! `cargo run -q -p mgp-client-sdk --example limit_layers`

#![expect(clippy::print_stdout, reason = "it is a program for a terminal")]

use std::time::Duration;

use mgp_client_sdk::prelude::*;
use mgp_lifecycle::{
    ConcurrencyLimitLayer, LimitConfig, Quota, QuotaLayer, RateLayer, RateLimit, SizeConfig,
    SizeLayer, TimeoutLayer,
};
use mgp_server_sdk::{Server, Tool};
use mgp_transport::{Connection, duplex};
use mgp_types::service::{MgpService, Stack};
use tower_layer::Layer;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut small = SizeConfig::default();
    small.result = 64;
    let mut none = LimitConfig::default();
    (none.max_running, none.max_waiting) = (0, 0);
    both("rate", RateLayer::new(RateLimit::per_hour(1)), "now").await?;
    both("quota", QuotaLayer::new(Quota::per_day(1)), "now").await?;
    both("size", SizeLayer::new(small), "tell").await?;
    both("turns", ConcurrencyLimitLayer::new(none), "now").await?;
    both("time", TimeoutLayer::new(Duration::from_millis(20)), "sleep").await
}

/// Prints the results of two calls with a layer on the client, then with it on the server.
async fn both<L>(name: &str, layer: L, tool: &str) -> Result<(), Box<dyn std::error::Error>>
where
    L: Layer<Stack> + Clone + Send + Sync + 'static,
    L::Service: MgpService,
{
    for side in ["client", "server"] {
        let mut server = Server::new("clock", "1.0")
            .tool(Tool::new("now", "The time", || async { "noon" }))
            .tool(Tool::new("tell", "Tells a story", || async { "Once upon a time. ".repeat(9) }))
            .tool(Tool::new("sleep", "Never wakes", std::future::pending::<&'static str>));
        let mut client = Client::builder("limit_layers", "1.0");
        match side {
            // The layer counts per principal, so the client gets a principal of its own.
            "client" => client = client.principal(principal("here")).layer(layer.clone()),
            _ => server = server.layer(layer.clone()),
        }
        let (here, there) = duplex();
        tokio::spawn(Connection::new(there.reader, there.writer, server.into_stack()?).run());
        let client = client.connect(here.reader, here.writer).await?;
        let mut ended = Vec::new();
        for _ in 0..2 {
            ended.push(match client.call(tool).await {
                Ok(_) => "answered".to_owned(),
                Err(error) => error.code().0.to_string(),
            });
        }
        println!("{name} on the {side}: {}", ended.join(", "));
    }
    Ok(())
}

fn principal(tenant: &str) -> mgp_types::service::Principal {
    mgp_types::service::Principal::new(tenant, "ann")
}
