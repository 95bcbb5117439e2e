//! Drives any MCP server over stdio or streamable HTTP and prints one JSON line per run.
//!
//! It uses no SDK, so that it can measure all of them alike.
//! `stdio`: depth is the number of requests in flight.
//! `http`: depth is the number of keep-alive connections with a session each, one request in flight on each.
//! The default call is `tools/call` of `echo` with a message that begins with the request's own number;
//! each reply must carry it back, so a cache cannot cheat (`bad` counts the misses).
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
            json!({"name": o.text("name", ""), "mode": o.mode, "depth": o.number("depth", 1), "payload": o.number("payload-bytes", 64), "fatal": e.to_string()})
        );
        std::process::exit(1);
    }
}
