//! A server with a single layer, which writes an audit log of every call (MGP §6) to a folder.
//!
//! `cargo run -q -p mgp-server-sdk --example audit_alone -- FOLDER`

use std::sync::Arc;

use mgp_security::{AuditLayer, AuditLog, LogConfig};
use mgp_server_sdk::prelude::*;

/// Greets a person.
#[tool(inline, read_only)]
fn greet(name: &str) -> String {
    format!("Hello, {name}!")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: audit_alone FOLDER")?;
    let log = AuditLog::open(LogConfig::new(folder), None).await?;
    let audit = AuditLayer::new(Arc::new(log.clone())).server("greeter");
    Server::new("greeter", "1.0").tool(greet()).layer(audit).serve_stdio().await?;
    Ok(log.flush().await?)
}
