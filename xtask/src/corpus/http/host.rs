//! The server that all HTTP rows of the corpus share. It listens on a free port; if a row crashes it, we restart it.

use super::fixture;
use crate::{
    exchange::{self, Status},
    run::{Context, Outcome, debug_programs, target},
    serving::Served,
};
use serde_json::json;
use std::{fs, time::Duration};

/// The time limit of a single request, e.g. of the check that the server still answers.
const REACT: Duration = Duration::from_secs(5);
/// The protocol revision that has sessions.
const LEGACY: &str = "2025-11-25";

/// The running server, and the command that starts it.
#[derive(Debug)]
pub(super) struct Host {
    command: Vec<String>,
    served: Served,
}

impl Host {
    /// Starts the server; an empty command selects our own conformance server.
    ///
    /// Replaces `PORT` in the command by the port, and `FIXTURE` by the path of the file with API keys. A command
    /// without `PORT` gets the flags that our server has.
    pub(super) fn start(command: &[String]) -> Outcome<Self> {
        let mut command = match command {
            [] => vec![conformance_server()?],
            given => given.to_vec(),
        };
        if !command.iter().any(|word| word.contains("PORT")) {
            command.extend(["--port", "PORT", "--auth-fixture", "FIXTURE"].map(str::to_owned));
        }
        let served = launch(&command)?;
        Ok(Self { command, served })
    }

    /// Starts the server again if it has exited; returns whether it had exited.
    pub(super) fn revive(&mut self) -> Outcome<bool> {
        let ended = self.served.ended()?;
        if ended {
            self.served = launch(&self.command)?;
        }
        Ok(ended)
    }

    pub(super) fn port(&self) -> u16 {
        self.served.port()
    }

    pub(super) fn process(&self) -> u32 {
        self.served.process()
    }
}

/// Builds the conformance server and returns its path.
pub(crate) fn conformance_server() -> Outcome<String> {
    let path = debug_programs(&["conformance_server"])?.join("examples/conformance_server");
    Ok(path.to_string_lossy().into_owned())
}

fn launch(command: &[String]) -> Outcome<Served> {
    let folder = target()?.join("scratch");
    fs::create_dir_all(&folder).context(folder.display())?;
    let file = folder.join("auth-fixture.json");
    fs::write(&file, fixture::file(&fixture::names()).to_string()).context(file.display())?;
    let words = command.iter().map(|word| word.replace("FIXTURE", &file.to_string_lossy()).into());
    Served::words(&words.collect::<Vec<_>>(), &folder.join("corpus-http.log"))
}

/// Returns whether the server still answers a `tools/list` request.
pub(super) fn alive(port: u16) -> bool {
    let answer = exchange::ask(port, &json!({}), "tools/list", json!({}), REACT);
    answer.status == Status::Of(200)
        && answer
            .message()
            .is_some_and(|message| message["id"] == 1 && message.get("result").is_some())
}

/// Opens a session and returns its id; `more` are the header lines that identify its owner.
pub(super) fn open_session(port: u16, more: &[String]) -> Result<String, String> {
    let hello = json!({
        "jsonrpc": "2.0", "id": "hello", "method": "initialize",
        "params": {
            "protocolVersion": LEGACY, "capabilities": {},
            "clientInfo": {"name": "corpus", "version": "0"},
        },
    });
    let answer = exchange::post(port, &hello, &lines(more), REACT);
    let session = answer.header("mcp-session-id").map(str::to_owned);
    let session = session.ok_or_else(|| format!("no session: status {}", answer.status.value()))?;
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    exchange::post(port, &ready, &lines(&in_session(&session, more)), REACT);
    Ok(session)
}

pub(super) fn close_session(port: u16, session: &str, more: &[String]) {
    let more = lines(&in_session(session, more));
    let request = format!("DELETE /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{more}\r\n");
    let pieces = std::iter::once((request.into_bytes(), Duration::ZERO));
    exchange::exchange(port, pieces, "DELETE", 1, REACT);
}

fn in_session(session: &str, more: &[String]) -> Vec<String> {
    let own = [format!("Mcp-Session-Id: {session}"), format!("MCP-Protocol-Version: {LEGACY}")];
    own.into_iter().chain(more.iter().cloned()).collect()
}

fn lines(lines: &[String]) -> String {
    lines.iter().flat_map(|line| [line.as_str(), "\r\n"]).collect()
}
