//! The smallest server: one tool, on stdin and stdout.

use mgp_server_sdk::prelude::*;

/// Greets a person.
#[tool(inline, read_only)]
fn greet(name: &str) -> String {
    format!("Hello, {name}!")
}

#[tokio::main]
async fn main() -> Result<(), ServeError> {
    Server::new("greeter", "1.0").tool(greet()).serve_stdio().await
}
