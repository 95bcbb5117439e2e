//! A peer without an SDK that reads and writes lines of JSON, in either era, with or without MGP.

use std::time::Duration;

use mgp_transport::{Connection, duplex};
use mgp_types::mcp::Era;
use mgp_types::service::{Principal, Stack};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::time::timeout;

/// The protocol that a peer speaks: MCP only, or MCP with MGP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Mgp,
    Plain,
}

/// The four kinds of peers.
pub(crate) const PEERS: [(Era, Dialect); 4] = [
    (Era::Legacy, Dialect::Mgp),
    (Era::Legacy, Dialect::Plain),
    (Era::Modern, Dialect::Mgp),
    (Era::Modern, Dialect::Plain),
];

/// The time limit of waiting for a line. It is longer than every timeout of a server, and takes no real time, because
/// the clock of the tests is paused.
const LINE_TIMEOUT: Duration = Duration::from_hours(1);

pub(crate) struct Peer {
    pub(crate) era: Era,
    pub(crate) dialect: Dialect,
    writer: WriteHalf<DuplexStream>,
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    next: u64,
    /// The most recent line that the peer received.
    pub(crate) last: String,
}

impl Peer {
    /// Connects as a caller who is not an operator and, in the legacy era, initializes the session.
    pub(crate) async fn join(stack: &Stack, (era, dialect): (Era, Dialect)) -> Self {
        let mut peer = Self::connect(stack, (era, dialect));
        if era == Era::Legacy {
            let hello = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": peer.capabilities(),
                "clientInfo": { "name": "wire", "version": "1" },
            });
            let answer = peer.ask("initialize", hello).await;
            let speaks = answer["result"]["capabilities"]["mgp"].is_object();
            assert_eq!(speaks, dialect == Dialect::Mgp, "{answer}");
            peer.line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        }
        peer
    }

    /// Connects without sending anything.
    pub(crate) fn connect(stack: &Stack, (era, dialect): (Era, Dialect)) -> Self {
        let (here, there) = duplex();
        let connection = Connection::new(there.reader, there.writer, stack.clone());
        tokio::spawn(connection.principal(Principal::new("acme", "mallory")).run());
        let lines = BufReader::new(here.reader).lines();
        Self { era, dialect, writer: here.writer, lines, next: 1, last: String::new() }
    }

    fn capabilities(&self) -> Value {
        let words = [
            "streaming",
            "tool_security",
            "permissions",
            "access_control",
            "lifecycle",
            "discovery",
            "tool_discovery",
            "error_handling",
            "events",
            "callbacks",
            "manifest",
            "server_recommendations",
            "scopes",
            "transactions",
        ];
        let offer = json!({ "version": "0.3.0", "extensions": words });
        match (self.dialect, self.era) {
            (Dialect::Plain, _) => json!({}),
            (Dialect::Mgp, Era::Legacy) => json!({ "mgp": offer }),
            (Dialect::Mgp, Era::Modern) => json!({ "extensions": { "dev.cloto/mgp": offer } }),
        }
    }

    /// Sends a line.
    pub(crate) async fn line(&mut self, text: &str) {
        self.writer.write_all(format!("{text}\n").as_bytes()).await.unwrap();
    }

    /// Waits for the next message.
    pub(crate) async fn receive(&mut self) -> Value {
        let line = timeout(LINE_TIMEOUT, self.lines.next_line()).await;
        self.last =
            line.expect("no answer in time").unwrap().expect("the server closed the connection");
        serde_json::from_str(&self.last).unwrap()
    }

    /// Sends a request and returns its id.
    pub(crate) async fn send(&mut self, method: &str, mut params: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        if self.era == Era::Modern {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = self.capabilities();
        }
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.line(&request.to_string()).await;
        id
    }

    /// Waits for the response to a request, and ignores other messages.
    pub(crate) async fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.receive().await;
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// Sends a request and waits for its response.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        self.answer(id).await
    }

    /// Calls a tool without arguments.
    pub(crate) async fn call(&mut self, tool: &str) -> Value {
        self.ask("tools/call", json!({ "name": tool, "arguments": {} })).await
    }
}
