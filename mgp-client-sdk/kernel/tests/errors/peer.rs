//! A peer without any SDK: it writes lines and reads lines, in either era, with MGP or without.

use std::time::Duration;

use mgp_transport::{Connection, duplex};
use mgp_types::mcp::Era;
use mgp_types::service::{Principal, Stack};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::time::timeout;

/// Whether a peer speaks MGP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tongue {
    Mgp,
    Plain,
}

/// The four peers that every refusal is worded for.
pub(crate) const PEERS: [(Era, Tongue); 4] = [
    (Era::Legacy, Tongue::Mgp),
    (Era::Legacy, Tongue::Plain),
    (Era::Modern, Tongue::Mgp),
    (Era::Modern, Tongue::Plain),
];

/// How long it waits for a line; in paused time every time-out of a server must come first.
const PATIENCE: Duration = Duration::from_hours(1);

/// The peer.
pub(crate) struct Peer {
    pub(crate) era: Era,
    pub(crate) tongue: Tongue,
    writer: WriteHalf<DuplexStream>,
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    next: u64,
    /// The last line as it came.
    pub(crate) last: String,
}

impl Peer {
    /// Joins a server as somebody who is no operator.
    pub(crate) async fn join(stack: &Stack, (era, tongue): (Era, Tongue)) -> Self {
        let mut peer = Self::silent(stack, (era, tongue));
        if era == Era::Legacy {
            let hello = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": peer.capabilities(),
                "clientInfo": { "name": "wire", "version": "1" },
            });
            let answer = peer.ask("initialize", hello).await;
            let speaks = answer["result"]["capabilities"]["mgp"].is_object();
            assert_eq!(speaks, tongue == Tongue::Mgp, "{answer}");
            peer.line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        }
        peer
    }

    /// Connects and says nothing yet.
    pub(crate) fn silent(stack: &Stack, (era, tongue): (Era, Tongue)) -> Self {
        let (here, there) = duplex();
        let connection = Connection::new(there.reader, there.writer, stack.clone());
        tokio::spawn(connection.principal(Principal::new("acme", "mallory")).run());
        let lines = BufReader::new(here.reader).lines();
        Self { era, tongue, writer: here.writer, lines, next: 1, last: String::new() }
    }

    fn capabilities(&self) -> Value {
        let words = [
            "streaming",
            "tool_security",
            "permissions",
            "access_control",
            "lifecycle",
            "discovery",
        ];
        let offer = json!({ "version": "0.3.0", "extensions": words });
        match (self.tongue, self.era) {
            (Tongue::Plain, _) => json!({}),
            (Tongue::Mgp, Era::Legacy) => json!({ "mgp": offer }),
            (Tongue::Mgp, Era::Modern) => json!({ "extensions": { "dev.cloto/mgp": offer } }),
        }
    }

    /// Says something in these very words.
    pub(crate) async fn line(&mut self, text: &str) {
        self.writer.write_all(format!("{text}\n").as_bytes()).await.unwrap();
    }

    /// The next message.
    pub(crate) async fn hear(&mut self) -> Value {
        let line = timeout(PATIENCE, self.lines.next_line()).await;
        self.last = line.expect("no answer came").unwrap().expect("the server hung up");
        serde_json::from_str(&self.last).unwrap()
    }

    /// Sends a request, and says under which number.
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

    /// The answer of a request; notifications meanwhile are passed over.
    pub(crate) async fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.hear().await;
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        self.answer(id).await
    }

    /// Calls a tool without arguments.
    pub(crate) async fn call(&mut self, tool: &str) -> Value {
        self.ask("tools/call", json!({ "name": tool, "arguments": {} })).await
    }
}
