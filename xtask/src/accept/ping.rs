//! The acceptance check `life.ping`: a busy server must answer pings in time, even while a tool blocks one of its
//! threads (MGP §11.3).

use crate::{
    accept::Verdict,
    corpus, exchange,
    run::{Failure, Outcome, now, release_example},
    serving::Served,
};
use serde_json::{Value, json};
use std::{io::Write as _, net::TcpStream, path::Path, process::Command, thread, time::Duration};

/// The time within which 99 of 100 pings must be answered.
const MAX_P99: Duration = Duration::from_millis(50);
/// The time within which the specification requires an answer to every ping.
const WORST: Duration = Duration::from_secs(5);
/// The number of calls that run or wait while the server is pinged over stdio.
const IN_FLIGHT: usize = 1000;
/// The number of calls in flight while the server is pinged over HTTP; fewer, because each call needs a connection.
const CONNECTIONS: usize = 500;
/// The time after which a missing reply fails the check.
const REPLY_TIMEOUT: Duration = Duration::from_secs(20);
/// The number of threads of the server. A tool blocks one thread, and the other thread must answer.
const WORKERS: &str = "2";

/// Pings busy servers over stdio and over HTTP, and checks the times of all pings.
pub(super) fn ping() -> Outcome<Verdict> {
    let program = release_example("mgp-server-sdk", "workbench", &[])?;
    let mut all = Vec::new();
    for (what, times) in [
        ("one thread blocked for long", long(&program)?),
        ("a thread blocked again and again", again(&program)?),
        ("the same at a URL", over_http(&program)?),
    ] {
        println!("{what}: {}", figures(&times));
        all.push(times);
    }
    let count: usize = all.iter().map(Vec::len).sum();
    let slowest = all.iter().map(|times| percentile(times, 99)).max().unwrap_or(WORST);
    let worst = all.iter().flatten().max().copied().unwrap_or(WORST);
    Ok(Verdict {
        pass: slowest < MAX_P99 && worst < WORST && count >= 900,
        figure: format!(
            "p99 {:.1} ms, worst {:.1} ms of {count} pings with {IN_FLIGHT} calls in flight and a thread blocked",
            milliseconds(slowest),
            milliseconds(worst)
        ),
        bound: format!("{} ms", MAX_P99.as_millis()),
    })
}

/// Pings a server with a thousand calls in flight, while a tool blocks one thread all the time.
fn long(program: &Path) -> Outcome<Vec<Duration>> {
    let server = Server::start(program)?;
    server.call(1, "freeze", 60_000)?;
    for id in 0..IN_FLIGHT {
        server.call(1_000 + id, "sleep", 600_000)?;
    }
    let mut times = Vec::new();
    for id in 0..400 {
        thread::sleep(Duration::from_millis(5 + id % 20));
        times.push(server.ping(10_000 + usize::try_from(id)?)?);
    }
    Ok(times)
}

/// Pings a server while a tool repeatedly blocks a thread for a short time; the server must detect the blocked thread
/// each time.
fn again(program: &Path) -> Outcome<Vec<Duration>> {
    let server = Server::start(program)?;
    // The server runs 256 calls at the same time. Start one fewer, so that the blocking call does not wait in the
    // queue.
    for id in 0..255 {
        server.call(1_000 + id, "sleep", 600_000)?;
    }
    let mut times = Vec::new();
    for round in 0..60 {
        server.call(round, "freeze", 120)?;
        for ping in 0..5 {
            times.push(server.ping(10_000 + round * 10 + ping)?);
            thread::sleep(Duration::from_millis(7));
        }
        server.answer(round)?;
    }
    Ok(times)
}

/// A server process with two threads, connected over stdio.
struct Server(corpus::Server);

impl Server {
    fn start(program: &Path) -> Outcome<Self> {
        let program = program.to_string_lossy().into_owned();
        let command = [program, "--workers".to_owned(), WORKERS.to_owned()];
        let server = Self(corpus::Server::start(&command)?);
        let mgp = json!({"mgp": {"version": "0.3.0", "extensions": ["lifecycle"]}});
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": mgp,
            "clientInfo": {"name": "xtask", "version": "1"},
        });
        server
            .send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}))?;
        server.answer(0)?;
        server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(server)
    }

    fn send(&self, message: &Value) -> Outcome {
        let is_written = self.0.send_line(&message.to_string());
        if is_written { Ok(()) } else { Err(Failure::new("the server does not read its input")) }
    }

    fn call(&self, id: usize, tool: &str, ms: u64) -> Outcome {
        let params = json!({"name": tool, "arguments": {"ms": ms}});
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
    }

    /// Sends a ping; returns the time until its reply.
    fn ping(&self, id: usize) -> Outcome<Duration> {
        let begin = now();
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "mgp/health/ping"}))?;
        let answer = self.answer(id)?;
        let took = begin.elapsed();
        let status = &answer["result"]["status"];
        if status == "healthy" { Ok(took) } else { Err(Failure::new(answer.to_string())) }
    }

    /// Returns the reply to a request. Skips replies to other requests.
    fn answer(&self, id: usize) -> Outcome<Value> {
        while let Some(line) = self.0.line(REPLY_TIMEOUT) {
            let message: Value = serde_json::from_str(&line)?;
            if message["id"] == id {
                return Ok(message);
            }
        }
        Err(Failure::new(format!("no answer to request {id} within {REPLY_TIMEOUT:?}")))
    }
}

// === HTTP ===

/// Pings a server over HTTP while many connections each have a call in flight, and a tool blocks a thread repeatedly.
fn over_http(program: &Path) -> Outcome<Vec<Duration>> {
    let log = std::env::temp_dir().join(format!("xtask-ping-{}.log", std::process::id()));
    let command = |port: u16| {
        let mut command = Command::new(program);
        command.args(["--workers", WORKERS, "--http", &format!("127.0.0.1:{port}")]);
        Ok(command)
    };
    let served = Served::start(command, &log)?;
    let mgp = json!({"version": "0.3.0", "extensions": ["lifecycle"]});
    let capabilities = json!({"extensions": {"dev.cloto/mgp": mgp}});
    // Sends a call on a new connection, without reading the reply.
    let call = |tool: &str, ms: u64| -> Outcome<TcpStream> {
        let params = json!({"name": tool, "arguments": {"ms": ms}});
        let mut stream = exchange::connect(served.port())?;
        let call = exchange::request(served.port(), &capabilities, "tools/call", params);
        stream.write_all(&call)?;
        Ok(stream)
    };
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS {
        held.push(call("sleep", 600_000)?);
    }
    let mut times = Vec::new();
    for _ in 0..60 {
        held.push(call("freeze", 120)?);
        for _ in 0..5 {
            let (method, params) = ("mgp/health/ping", json!({}));
            let begin = now();
            let answer = exchange::ask(served.port(), &capabilities, method, params, REPLY_TIMEOUT);
            times.push(begin.elapsed());
            let message = answer.message().unwrap_or_default();
            if message["result"]["status"] != "healthy" {
                return Err(Failure::new(format!("{}: {message}", answer.status.value())));
            }
            thread::sleep(Duration::from_millis(7));
        }
        // Wait until the blocking call has ended before the next blocking call starts.
        thread::sleep(Duration::from_millis(90));
    }
    drop(held);
    let _ = std::fs::remove_file(log);
    Ok(times)
}

// === Figures ===

fn figures(times: &[Duration]) -> String {
    let [middle, slow] = [50, 99].map(|part| milliseconds(percentile(times, part)));
    let worst = times.iter().max().copied().unwrap_or_default();
    let count = times.len();
    format!(
        "{count} pings, p50 {middle:.1} ms, p99 {slow:.1} ms, worst {:.1} ms",
        milliseconds(worst)
    )
}

fn percentile(times: &[Duration], part: usize) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let at = (sorted.len() * part).div_ceil(100).saturating_sub(1);
    sorted.get(at).copied().unwrap_or(WORST)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
