//! Controls which agent may use which tool with `AccessLayer` on a client (MGP §5).
//!
//! `cargo run -q -p mgp-client-sdk --example access_layer`

#![expect(clippy::print_stdout, reason = "it is a program for a terminal")]

use mgp_client_sdk::prelude::*;
use mgp_security::{Access, AccessLayer, Policies};
use mgp_server_sdk::{Server, Tool};
use mgp_transport::{Connection, duplex};
use mgp_types::mgp::{AccessGrantParams, AccessPermission, AccessRevokeParams, EntryType};
use mgp_types::service::Principal;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tool = |name: &str| Tool::new(name, "Does something to a file", || async { "done" });
    let server = Server::new("files", "1.0").tool(tool("read")).tool(tool("delete"));
    let (here, there) = duplex();
    tokio::spawn(Connection::new(there.reader, there.writer, server.into_stack()?).run());

    let access = Access::in_memory(Policies::default());
    let client = Client::builder("access_layer", "1.0")
        .server_id("files")
        .principal(Principal::local().agent("ada"))
        .layer(AccessLayer::new(access.clone()))
        .connect(here.reader, here.writer)
        .await?;

    let (ann, allow) = (Principal::local().operator(), AccessPermission::Allow);
    let mut grant = AccessGrantParams::new(EntryType::ToolGrant, "ada", "files", allow);
    grant.tool_name = Some("read".to_owned());
    access.grant(&ann, grant).await?;
    attempt(&client).await?;

    access.revoke(&ann, AccessRevokeParams::new("ada", "files", EntryType::ToolGrant)).await?;
    attempt(&client).await
}

/// Prints the listed tools and the results of calls.
async fn attempt(client: &Client) -> Result<(), Box<dyn std::error::Error>> {
    // Drop the cached list, because the access has changed since it was fetched.
    client.invalidate(&mgp_client_sdk::ServerChange::Tools);
    println!(
        "listed: {:?}",
        client.tools().await?.iter().map(|tool| &tool.name).collect::<Vec<_>>()
    );
    for tool in ["read", "delete"] {
        match client.call(tool).await {
            Ok(result) => println!("{tool}: {}", result.to_text()),
            Err(error) => println!("{tool}: refused, {} {}", error.code().0, error.message()),
        }
    }
    Ok(())
}
