//! The server for the official conformance suite of MCP, built with the public API only.
//!
//! `cargo run -q -p mgp-server-sdk --example conformance_server -- [FLAG…]`
//!
//! | flag | effect |
//! |---|---|
//! | `--port N` | serves `http://127.0.0.1:N/mcp`; by default stdin and stdout are served |
//! | `--auth-fixture FILE` | authenticates requests with the header `X-Test-Mode: auth`; other requests pass without authentication |
//!
//! The suite defines the answer of each tool, prompt and resource: `cargo xtask conformance` runs it.
//! The server offers the MGP extensions that a new server offers by default.
//!
//! The `FILE` of `--auth-fixture` contains the accepted API keys and tokens, as an object with these optional members:
//!
//! ```json
//! {"keys": [{"key": "mgp_…", "subject": "ann", "permissions": ["…"], "expires": "2027-01-01T00:00:00Z"}, "mgp_…"],
//!  "revoked": ["mgp_…"], "jwks": {"keys": []}, "issuer": "https://…", "audience": "https://…/mcp", "scopes": ["…"]}
//! ```

mod auth_fixture;
mod fixture;
mod flags;
mod test_mode;

use std::error::Error;
use std::process::ExitCode;

use flags::Flags;
use mgp_types::service::Principal;
use test_mode::TestModeLayer;

#[expect(clippy::print_stderr, reason = "a command line program reports errors on standard error")]
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
        Some(file) => server
            .auth(TestModeLayer(auth_fixture::load(file, port).await?))
            .config(|config| config.anonymous = Some(Principal::local())),
    };
    Ok(server.serve().await?)
}
