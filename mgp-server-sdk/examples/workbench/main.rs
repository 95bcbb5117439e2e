//! A server with a tool for every way a call can go: what tests, clients and gateways are tried on.
//!
//! `cargo run -q -p mgp-server-sdk --example workbench -- [FLAG…]`
//!
//! | flag | what it does |
//! |---|---|
//! | `--extensions LIST` | offers these extensions of MGP instead of those that are served; `all` is the nine, `none` is plain MCP |
//! | `--permissions LIST` | says that it needs these permissions |
//! | `--server-id ID` | claims this id |
//! | `--hang-init` | never answers the handshake |
//! | `--ready-after MS` | reads nothing for so long |
//! | `--exit-after N` | answers N tool calls and exits with status 3 at the next |
//! | `--workers N` | runs on so many threads, the server as one task among others; without it on one |
//! | `--http ADDR` | serves at a URL, to anyone on this machine, instead of on stdin and stdout |
//!
//! An extension that is forced by `--extensions` is negotiated, no more: its methods still answer −32601.
//!
//! | tool | what it does |
//! |---|---|
//! | `echo {message}` | says it |
//! | `sleep {ms}` | waits, and can be cancelled |
//! | `block {ms}` | blocks a thread, and cannot |
//! | `freeze {ms}` | blocks the very thread its server may need, as no tool should |
//! | `fail {code, message, data}` | fails with this error |
//! | `exit {code}` | ends the process |
//! | `big {bytes}` | answers with a text of this size |
//! | `stream {chunks, bytes, delay_ms}` | sends chunks, answers with the whole text |
//! | `progress {steps, delay_ms}` | says how far it is |
//! | `confirm {message}` | asks the caller's person |
//! | `publish {…}` | fails: comes with events (MGP §13) |
//! | `shell {command}`, `fetch {url}`, `run_code {language, code}` | say what they would have done |
//! | `add_tool {name}`, `remove_tool {name}` | change the list |
//!
//! `shell`, `fetch` and `run_code` carry the security metadata of such tools (MGP §4.3) and do nothing dangerous:
//! they show what a client must check before a call, and answer with what would have run.

mod bench;

use std::process::ExitCode;

use bench::{Settings, server};
use mgp_server_sdk::ServeError;

#[expect(clippy::print_stderr, reason = "a command line program says what is wrong with its flags")]
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
    // A server that shares its threads with the tools, as in a program that does other things too.
    Ok(runtime.block_on(async move { tokio::spawn(serve(settings)).await })??)
}

#[expect(clippy::print_stderr, reason = "whoever lets the system choose a port must learn which")]
async fn serve(settings: Settings) -> Result<(), ServeError> {
    tokio::time::sleep(settings.ready_after).await;
    let Some(address) = &settings.http else { return server(&settings).serve_stdio().await };
    let bound = server(&settings).http(address.as_str()).no_auth().bind().await?;
    eprintln!("serving http://{}/mcp", bound.local_addr());
    bound.serve().await;
    Ok(())
}
