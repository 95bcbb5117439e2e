//! The server all rows share: started on a free port, started again if a row has ended it.

use super::{
    exchange::{Answer, Status, exchange},
    fixture,
};
use crate::run::{Context, Failure, Outcome, Program, now, root, target};
use serde_json::{Value, json};
use std::{
    fs,
    net::{Ipv4Addr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

/// How long the server may take to listen.
const START: Duration = Duration::from_secs(20);
/// How long a sign of life may take.
const REACT: Duration = Duration::from_secs(5);
/// The revision with sessions.
const LEGACY: &str = "2025-11-25";
/// The revision without.
const MODERN: &str = "2026-07-28";

/// A running server.
#[derive(Debug)]
pub(super) struct Host {
    command: Vec<String>,
    child: Child,
    pub(super) port: u16,
}

impl Host {
    /// Starts the server; without a command, our own conformance server.
    ///
    /// `PORT` and `FIXTURE` in a command are filled in; a command without them gets the flags of ours.
    pub(super) fn start(command: &[String]) -> Outcome<Self> {
        let mut command =
            if command.is_empty() { vec![conformance_server()?] } else { command.to_vec() };
        if !command.iter().any(|word| word.contains("PORT")) {
            command.extend(["--port", "PORT", "--auth-fixture", "FIXTURE"].map(str::to_owned));
        }
        let (child, port) = launch(&command)?;
        Ok(Self { command, child, port })
    }

    /// Starts it again if it has gone; true if it had to.
    pub(super) fn revive(&mut self) -> Outcome<bool> {
        if self.child.try_wait()?.is_none() {
            return Ok(false);
        }
        (self.child, self.port) = launch(&self.command)?;
        Ok(true)
    }

    /// The process.
    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It may have left already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The most memory a process ever had, in bytes.
pub(super) fn peak_memory(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// Builds the conformance server and returns its path.
pub(crate) fn conformance_server() -> Outcome<String> {
    let example = root().join("mgp-server-sdk/examples");
    let here = ["conformance_server.rs", "conformance_server/main.rs"];
    if !here.iter().any(|file| example.join(file).is_file()) {
        return Err(Failure::new("the example conformance_server of mgp-server-sdk is not there"));
    }
    let build = ["build", "--quiet", "-p", "mgp-server-sdk", "--example", "conformance_server"];
    Program::cargo(&build).run()?;
    let path = target()?.join("debug/examples/conformance_server");
    Ok(path.to_string_lossy().into_owned())
}

fn launch(command: &[String]) -> Outcome<(Child, u16)> {
    // Closed again before the server asks for it; nobody else is told of it.
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let folder = target()?.join("scratch");
    fs::create_dir_all(&folder).context(folder.display())?;
    let file = folder.join(format!("auth-fixture-{port}.json"));
    fs::write(&file, fixture::file(&fixture::names()).to_string()).context(file.display())?;
    let fill = |word: &String| {
        word.replace("PORT", &port.to_string()).replace("FIXTURE", &file.to_string_lossy())
    };
    let words: Vec<String> = command.iter().map(fill).collect();
    let (program, arguments) = words.split_first().context("a server command")?;
    let log = folder.join("corpus-http.log");
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(&log).context(log.display())?)
        .spawn()
        .context(program)?;
    let end = now() + START;
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        if let Some(status) = child.try_wait()? {
            return Err(Failure::new(format!("{program} left: {status}; see {}", log.display())));
        }
        if now() > end {
            let _ = child.kill();
            return Err(Failure::new(format!("{program} does not listen on 127.0.0.1:{port}")));
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok((child, port))
}

/// Posts a message of ours; `more` are further header lines.
fn post(port: u16, message: &Value, more: &[String]) -> Answer {
    let body = message.to_string();
    let more = lines(more);
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n{more}\r\n{body}",
        body.len()
    );
    let pieces = std::iter::once((request.into_bytes(), Duration::ZERO));
    let mut answers = exchange(port, pieces, "POST", 1, REACT);
    answers.pop().unwrap_or_else(|| unreachable!("one answer was asked for"))
}

/// Whether the server still answers.
pub(super) fn alive(port: u16) -> bool {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let method = "tools/list";
    let list =
        json!({"jsonrpc": "2.0", "id": "alive", "method": method, "params": {"_meta": meta}});
    let more = [format!("MCP-Protocol-Version: {MODERN}"), format!("Mcp-Method: {method}")];
    let answer = post(port, &list, &more);
    answer.status == Status::Of(200)
        && answer
            .message()
            .is_some_and(|message| message["id"] == "alive" && message.get("result").is_some())
}

/// Opens a session; `more` are the header lines of whoever opens it.
pub(super) fn open_session(port: u16, more: &[String]) -> Result<String, String> {
    let hello = json!({
        "jsonrpc": "2.0", "id": "hello", "method": "initialize",
        "params": {
            "protocolVersion": LEGACY, "capabilities": {},
            "clientInfo": {"name": "corpus", "version": "0"},
        },
    });
    let answer = post(port, &hello, more);
    let session = answer.header("mcp-session-id").map(str::to_owned);
    let session = session.ok_or_else(|| format!("no session: status {}", answer.status.value()))?;
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    post(port, &ready, &in_session(&session, more));
    Ok(session)
}

/// Ends a session.
pub(super) fn close_session(port: u16, session: &str, more: &[String]) {
    let more = lines(&in_session(session, more));
    let request = format!("DELETE /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{more}\r\n");
    let pieces = std::iter::once((request.into_bytes(), Duration::ZERO));
    exchange(port, pieces, "DELETE", 1, REACT);
}

fn in_session(session: &str, more: &[String]) -> Vec<String> {
    let own = [format!("Mcp-Session-Id: {session}"), format!("MCP-Protocol-Version: {LEGACY}")];
    own.into_iter().chain(more.iter().cloned()).collect()
}

fn lines(lines: &[String]) -> String {
    lines.iter().flat_map(|line| [line.as_str(), "\r\n"]).collect()
}
