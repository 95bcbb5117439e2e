//! The server that the official conformance suite of MCP is run against, put together as anybody would.
//!
//! `cargo run -q -p mgp-server-sdk --example conformance_server -- [FLAG…]`
//!
//! | flag | what it does |
//! |---|---|
//! | `--port N` | serves `http://127.0.0.1:N/mcp`; without it stdin and stdout are served |
//! | `--auth-fixture FILE` | examines requests that say `X-Test-Mode: auth`; others come in as they are |
//!
//! What each tool, prompt and resource answers is laid down by the suite: `cargo xtask conformance` runs it.
//! Nothing here is known to the library, and everything of MGP that is served is offered.
//!
//! The file of keys and tokens is an object, of which any member may be missing:
//!
//! ```json
//! {"keys": [{"key": "mgp_…", "subject": "ann", "permissions": ["…"], "expires": "2027-01-01T00:00:00Z"}, "mgp_…"],
//!  "revoked": ["mgp_…"], "jwks": {"keys": []}, "issuer": "https://…", "audience": "https://…/mcp", "scopes": ["…"]}
//! ```

mod door;
mod fixture;
mod flags;
mod guard;

use std::error::Error;
use std::process::ExitCode;

use door::DoorLayer;
use flags::Flags;

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

async fn serve(flags: &Flags) -> Result<(), Box<dyn Error>> {
    let server = fixture::server();
    let Some(port) = flags.port else { return Ok(server.serve_stdio().await?) };
    let server = server.http(format!("127.0.0.1:{port}"));
    let server = match &flags.auth_fixture {
        None => server.no_auth(),
        // Only requests of the test mode are asked who they are.
        Some(file) => server.no_auth().auth(DoorLayer(guard::of(file, port).await?)),
    };
    Ok(server.serve().await?)
}
