//! Lists the tools, resources and prompts of a server.
//!
//! `cargo run -q -p mgp-client-sdk --example browse -- uvx mcp-server-time`

#![expect(clippy::print_stderr, reason = "it is a program for a terminal")]

use std::io::Write as _;
use std::process::ExitCode;

use mgp_client_sdk::prelude::*;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut words = std::env::args().skip(1).filter(|word| word != "--");
    let Some(program) = words.next() else {
        eprintln!("usage: browse COMMAND [ARGUMENT…]");
        return ExitCode::from(2);
    };
    match browse(ChildCommand::new(program).args(words)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn browse(server: ChildCommand) -> Result<(), Error> {
    let client = Client::builder("browse", env!("CARGO_PKG_VERSION")).spawn(server).await?;
    let facts = client.server();
    if let Some(info) = client.server_info() {
        print_line(&format!("{} {} ({})", info.name, info.version, facts.revision));
    }
    if let Some(active) = facts.mgp {
        print_line(&format!("MGP: {active}"));
    }
    let capabilities = client.capabilities();
    if capabilities.tools.is_some() {
        for tool in client.tools().await?.iter() {
            line("tool", &tool.name, tool.description.as_deref());
        }
    }
    if capabilities.resources.is_some() {
        for resource in client.resources().await?.iter() {
            line("resource", &resource.uri, resource.description.as_deref());
        }
        for template in client.resource_templates().await?.iter() {
            line("template", &template.uri_template, template.description.as_deref());
        }
    }
    if capabilities.prompts.is_some() {
        for prompt in client.prompts().await?.iter() {
            line("prompt", &prompt.name, prompt.description.as_deref());
        }
    }
    client.close().await;
    Ok(())
}

/// Prints one line: the kind, the name, and the first line of the description.
fn line(kind: &str, name: &str, description: Option<&str>) {
    let first = description.and_then(|text| text.trim().lines().next()).unwrap_or_default();
    print_line(&format!("{kind:9} {name}  {first}"));
}

// Ignores the error of a closed pipe (`browse … | head`), because the reader has read enough.
fn print_line(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
