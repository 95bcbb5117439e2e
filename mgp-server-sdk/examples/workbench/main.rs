//! A server for tests of clients and gateways; it has a tool for each possible outcome of a call.
//!
//! `cargo run -q -p mgp-server-sdk --example workbench -- [FLAG…]`
//!
//! | flag | effect |
//! |---|---|
//! | `--extensions LIST` | offers these extensions of MGP instead of those that it serves; `all` means the nine standard extensions, `none` plain MCP |
//! | `--permissions LIST` | declares that it needs these permissions |
//! | `--server-id ID` | offers this server id |
//! | `--hang-init` | never answers the handshake |
//! | `--ready-after MS` | starts reading after this delay |
//! | `--exit-after N` | answers N tool calls and exits with status 3 at the next call |
//! | `--workers N` | runs on N threads, the server as one task among others; by default on one thread |
//! | `--http ADDR` | serves over HTTP without authentication, instead of on stdin and stdout |
//!
//! An extension that is offered only because of `--extensions` is negotiated but not served: its methods still fail
//! with error −32601 (method not found).
//!
//! | tool | effect |
//! |---|---|
//! | `echo {message}` | returns the message |
//! | `sleep {ms}` | waits; can be cancelled |
//! | `block {ms}` | blocks a thread of the blocking pool; cannot be cancelled |
//! | `freeze {ms}` | blocks a thread of the runtime, as no tool should |
//! | `fail {code, message, data}` | fails with this error |
//! | `exit {code}` | ends the process |
//! | `big {bytes}` | returns a text of this size |
//! | `stream {chunks, bytes, delay_ms}` | sends chunks, returns the whole text |
//! | `progress {steps, delay_ms}` | reports progress |
//! | `confirm {message}` | asks the user to confirm |
//! | `publish {channel, severity, data, count}` | publishes events (MGP §13) |
//! | `shell {command}`, `fetch {url}`, `run_code {language, code}` | return the action they would have taken |
//! | `add_tool {name}`, `remove_tool {name}` | change the list |
//!
//! `shell`, `fetch` and `run_code` have the security metadata that real tools of this kind would have (MGP §4.3), but
//! do nothing. They test the checks that a client makes before a call.

mod bench;

use std::process::ExitCode;

use bench::{Settings, server};
use mgp_server_sdk::ServeError;

#[expect(clippy::print_stderr, reason = "a command line program reports errors on standard error")]
fn main() -> ExitCode {
    let settings = match Settings::parse(std::env::args().skip(1)) {
        Ok(settings) => settings,
        Err(refusal) => {
            eprintln!("workbench: {refusal}");
            return ExitCode::from(2);
        }
    };
    match run(settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("workbench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(settings: Settings) -> Result<(), Box<dyn std::error::Error>> {
    let Some(workers) = settings.workers else {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        return Ok(runtime.block_on(serve(settings))?);
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build()?;
    // The server runs as one task among others, as in a program that also does other work.
    Ok(runtime.block_on(async move { tokio::spawn(serve(settings)).await })??)
}

#[expect(clippy::print_stderr, reason = "the caller needs the port that the system chose")]
async fn serve(settings: Settings) -> Result<(), ServeError> {
    tokio::time::sleep(settings.ready_after).await;
    let Some(address) = &settings.http else { return server(&settings).serve_stdio().await };
    let bound = server(&settings).http(address.as_str()).no_auth().bind().await?;
    eprintln!("serving http://{}/mcp", bound.local_addr());
    bound.serve().await;
    Ok(())
}
