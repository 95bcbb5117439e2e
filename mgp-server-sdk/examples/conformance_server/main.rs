//! The server that the official conformance suite of MCP is run against, put together as anybody would.
//!
//! `cargo run -q -p mgp-server-sdk --example conformance_server -- [FLAG…]`
//!
//! | flag | what it does |
//! |---|---|
//! | `--port N` | serves `http://127.0.0.1:N/mcp`; without it stdin and stdout are served |
//!
//! What each tool, prompt and resource answers is laid down by the suite: `cargo xtask conformance` runs it.
//! Nothing here is known to the library, and everything of MGP that is served is offered.

mod fixture;
mod flags;

use std::process::ExitCode;

use flags::Flags;
use mgp_server_sdk::ServeError;

#[expect(clippy::print_stderr, reason = "a command line program says what went wrong")]
#[tokio::main]
async fn main() -> ExitCode {
    let flags = match Flags::parse(std::env::args().skip(1)) {
        Ok(flags) => flags,
        Err(refusal) => {
            eprintln!("conformance_server: {refusal}");
            return ExitCode::from(2);
        }
    };
    match serve(&flags).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("conformance_server: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(flags: &Flags) -> Result<(), ServeError> {
    let server = fixture::server();
    match flags.port {
        Some(port) => server.http(format!("127.0.0.1:{port}")).no_auth().serve().await,
        None => server.serve_stdio().await,
    }
}
