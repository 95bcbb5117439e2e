//! A load generator for any MCP server over stdio or streamable HTTP; prints one line of JSON per run.
//!
//! `cargo xtask bench` starts it. It uses no MCP SDK, so that the client costs the same for every server. In mode
//! `stdio`, `--depth` is the number of requests in flight. In mode `http`, `--depth` is the number of keep-alive
//! connections, each with a session and one request in flight. The default call is `tools/call` of the tool `echo` with
//! a message that begins with the sequence number of the request. Each reply must contain this number, so that a server
//! cannot return a cached reply; `bad` counts wrong replies, such as replies without the number.
mod account;
mod http;
mod message;
mod options;
mod report;
mod sessions;
mod stdio;

use options::{Options, usage};
use serde_json::json;

type Res<T> = Result<T, Box<dyn std::error::Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let o = Options::parse();
    let result = match o.mode.as_str() {
        "stdio" => stdio::stdio(&o).await,
        "http" => http::http(&o).await,
        "sessions" => sessions::sessions(&o).await,
        _ => usage(),
    };
    if let Err(e) = result {
        println!(
            "{}",
            json!({"mode": o.mode, "depth": o.number("depth", 1), "payload": o.number("payload-bytes", 64), "fatal": e.to_string()})
        );
        std::process::exit(1);
    }
}
