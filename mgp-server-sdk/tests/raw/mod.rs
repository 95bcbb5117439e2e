//! A peer that writes and reads lines without an SDK, over a connection in memory.

use mgp_server_sdk::Server;
use mgp_transport::duplex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

/// The peer's ends of a connection.
pub(crate) struct Raw {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
    next: u64,
}

impl Raw {
    /// Connects to a server without a handshake.
    pub(crate) fn connect(server: Server) -> Self {
        let (here, there) = duplex();
        tokio::spawn(server.serve(there.reader, there.writer));
        Self { reader: BufReader::new(here.reader), writer: here.writer, next: 1 }
    }

    pub(crate) async fn write(&mut self, message: &Value) {
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// Returns the next message of the server.
    pub(crate) async fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.reader.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Sends a request and returns the messages up to its answer, which is the last one.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Vec<Value> {
        let id = self.next;
        self.next += 1;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        let mut received = Vec::new();
        loop {
            let message = self.receive().await;
            let done = message["id"] == id && message.get("method").is_none();
            received.push(message);
            if done {
                return received;
            }
        }
    }

    pub(crate) async fn answer(&mut self, method: &str, params: Value) -> Value {
        self.ask(method, params).await.pop().unwrap()
    }

    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        self.write(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }
}

/// Returns the params of `initialize`.
pub(crate) fn hello(revision: &str, capabilities: &Value) -> Value {
    let client = json!({"name": "raw", "version": "1"});
    json!({"protocolVersion": revision, "capabilities": capabilities, "clientInfo": client})
}

/// Returns the `_meta` of a modern request.
pub(crate) fn modern(capabilities: &Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}
