//! Monitors the health of a server with `monitor_health` on a client and `Health` on a server (MGP §11.3).
//!
//! `cargo run -q -p mgp-client-sdk --example health_monitor`

#![expect(clippy::print_stdout, reason = "it is a program for a terminal")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mgp_client_sdk::MonitorConfig;
use mgp_client_sdk::prelude::*;
use mgp_lifecycle::{Health, HealthConfig};
use mgp_server_sdk::Server;
use mgp_transport::{Connection, duplex};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let is_up = Arc::new(AtomicBool::new(true));
    let database = Arc::clone(&is_up);
    let mut bounds = HealthConfig::default();
    bounds.fresh = Duration::from_millis(5);
    let server = Server::new("books", "1.0").health(|_| Health::with_config(bounds)).check(
        "database",
        move || {
            let is_up = database.load(Ordering::Relaxed);
            async move { is_up }
        },
    );
    let (here, there) = duplex();
    tokio::spawn(Connection::new(there.reader, there.writer, server.into_stack()?).run());
    let client = Client::builder("health_monitor", "1.0").connect(here.reader, here.writer).await?;
    let status = client.mgp().health_status().await?;
    println!("{}, {}", status.status, serde_json::to_string(&status.checks)?);

    // Ping much more often than in production, so that the example ends soon.
    let mut config = MonitorConfig::default();
    (config.interval, config.misses) = (Duration::from_millis(20), 1);
    let watch = client.monitor_health(config);
    let mut changes = watch.changes();
    for step in [Step::Fails, Step::Recovers, Step::Ends] {
        match step {
            Step::Fails => is_up.store(false, Ordering::Relaxed),
            Step::Recovers => is_up.store(true, Ordering::Relaxed),
            Step::Ends => drop(client.close().await),
        }
        let change = changes.recv().await?;
        println!("{} to {}: {}", change.from, change.to, change.reason);
    }
    Ok(())
}

/// A change that the example makes to the server's health.
enum Step {
    Fails,
    Recovers,
    Ends,
}
