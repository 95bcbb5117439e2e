//! Measures how much memory a misbehaving child process costs its parent; prints one line of JSON.
//!
//! - `child_probe stderr_flood [BYTES]`: the child writes many bytes to stderr (100 MiB), while the parent pings it.
//! - `child_probe reply_twice`: the child sends two replies to each request.
//!
//! The wire corpus (`cargo xtask corpus`) runs it for its rows about MGP §11.

#![expect(clippy::print_stdout, reason = "the result is a line on stdout")]

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use mgp_transport::{Child, ChildCommand, ChildReader, Connection};
use mgp_types::mcp::EmptyParams;
use mgp_types::method::Ping;
use mgp_types::service::{Call, Router, Stack};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::time::timeout;

/// The maximum growth of this process's memory in bytes, however much the child writes.
const MAX_GROWTH: u64 = 32 << 20;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let kind = args.next().unwrap_or_default();
    let bytes = args.next().and_then(|bytes| bytes.parse().ok()).unwrap_or(100 << 20);
    let result = match kind.as_str() {
        "stderr_flood" => timeout(Duration::from_mins(2), stderr_flood(bytes))
            .await
            .unwrap_or_else(|_| Err("the child hangs".into())),
        "reply_twice" => timeout(Duration::from_mins(1), reply_twice())
            .await
            .unwrap_or_else(|_| Err("the child hangs".into())),
        _ => Err("unknown kind".into()),
    };
    match result {
        Ok(growth) => {
            println!(r#"{{"ok":{},"rss_growth":{growth}}}"#, growth < MAX_GROWTH);
            if growth < MAX_GROWTH { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(why) => {
            println!("{}", serde_json::json!({ "ok": false, "why": why.to_string() }));
            ExitCode::FAILURE
        }
    }
}

/// The number of requests to which the child replies twice.
const REQUESTS: usize = 1_000;

/// Starts a child that replies twice to each request; returns the growth of this process's memory. Fails unless each
/// first reply is received and each second reply is ignored.
async fn reply_twice() -> Result<u64, Box<dyn Error>> {
    let zoo = std::env::current_exe()?.with_file_name("child_zoo");
    let mut child = ChildCommand::new(zoo).arg("reply-twice").spawn()?;
    let (reader, writer) = child.take_io().ok_or("the pipes are taken")?;
    let connection = Connection::new(reader, writer, Stack::new(Router::new()));
    let (peer, cx, monitor) = (connection.peer(), connection.context(), connection.monitor());
    let driving = tokio::spawn(connection.run());
    let before = memory("VmRSS:")?;
    let mut seen = std::collections::HashSet::new();
    for _ in 0..REQUESTS {
        let reply = peer.send(Call::ask::<Ping>(&EmptyParams::new(), cx.clone())?).await?;
        let of = reply.get::<serde_json::Value>()?["of"].as_i64().ok_or("a strange answer")?;
        // Each id must be new. If the client took the second reply to a request for the reply to a later request, an id
        // would appear twice.
        if !seen.insert(of) {
            return Err(format!("request {of} was answered twice").into());
        }
    }
    if monitor.pending() > 0 || monitor.held_bytes() > 0 || driving.is_finished() {
        return Err("something is left".into());
    }
    peer.close("done");
    driving.await?;
    let report = child.shutdown().await;
    if !report.is_success() {
        return Err(report.to_string().into());
    }
    Ok(memory("VmHWM:")?.saturating_sub(before))
}

/// Pings a child while the child floods its stderr; returns the growth of this process's memory.
async fn stderr_flood(bytes: u64) -> Result<u64, Box<dyn Error>> {
    let zoo = std::env::current_exe()?.with_file_name("child_zoo");
    let before = memory("VmRSS:")?;
    let mut child = ChildCommand::new(zoo)
        .args(["flood-stderr", &bytes.to_string()])
        .close_timeout(Duration::from_secs(10))
        .spawn()?;
    converse(&mut child).await?;
    let report = child.shutdown().await;
    if !report.is_success() {
        return Err(report.to_string().into());
    }
    Ok(memory("VmHWM:")?.saturating_sub(before))
}

async fn converse(child: &mut Child) -> Result<(), Box<dyn Error>> {
    let (reader, mut writer) = child.take_io().ok_or("the pipes are taken")?;
    let mut lines = BufReader::new(reader).lines();
    writer.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").await?;
    let (mut answered, mut flooded) = (false, false);
    while !(answered && flooded) {
        let line = next(&mut lines).await?;
        if line == "done" {
            flooded = true;
        } else {
            let reply: serde_json::Value = serde_json::from_str(&line)?;
            answered = reply["id"] == 1 && reply["result"].is_object();
        }
    }
    Ok(())
}

async fn next(lines: &mut Lines<BufReader<ChildReader>>) -> Result<String, Box<dyn Error>> {
    Ok(lines.next_line().await?.ok_or("the child closed its stdout")?)
}

/// Returns a memory figure of this process, e.g. that of `VmRSS:`, in bytes; 0 on systems without `/proc`.
fn memory(name: &str) -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib: u64 = line.unwrap_or("0 kB").trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}
