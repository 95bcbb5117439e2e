//! A peer without an SDK, which a test uses to write and read JSON messages as text.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::time::timeout;

/// The default time limit for waiting for a line from the other end.
const LINE_TIMEOUT: Duration = Duration::from_secs(20);

/// One end of a connection in memory, over which a test can write any message, as a client or a server. The test also
/// reads every message of the other end. All methods panic if the connection breaks, or if a line does not arrive in
/// time.
#[derive(Debug)]
pub struct RawPeer {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    next_id: u64,
    meta: Value,
    line_timeout: Option<Duration>,
    last_line: String,
}

impl RawPeer {
    /// Creates a peer over one end of a connection.
    #[must_use]
    pub fn new(reader: ReadHalf<DuplexStream>, writer: WriteHalf<DuplexStream>) -> Self {
        Self {
            lines: BufReader::new(reader).lines(),
            writer,
            next_id: 1,
            meta: Value::Null,
            line_timeout: Some(LINE_TIMEOUT),
            last_line: String::new(),
        }
    }

    /// Adds these members to the `_meta` of each request.
    #[must_use]
    pub fn with_meta(mut self, meta: Value) -> Self {
        self.meta = meta;
        self
    }

    /// Sets the time limit for waiting for a line. `None` waits without a timer: a paused clock would advance to the
    /// timer, so the wait would end immediately.
    #[must_use]
    pub fn with_line_timeout(mut self, line_timeout: Option<Duration>) -> Self {
        self.line_timeout = line_timeout;
        self
    }

    /// Writes a line of any text.
    pub async fn line(&mut self, text: &str) {
        self.writer.write_all(format!("{text}\n").as_bytes()).await.expect("the other end reads");
    }

    /// Writes a message.
    pub async fn write(&mut self, message: &Value) {
        self.line(&message.to_string()).await;
    }

    /// Sends a notification.
    pub async fn notify(&mut self, method: &str, params: Value) {
        self.write(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    /// Sends a request and returns its id.
    pub async fn send(&mut self, method: &str, mut params: Value) -> u64 {
        for (name, value) in self.meta.as_object().into_iter().flatten() {
            params["_meta"][name] = value.clone();
        }
        let id = self.next_id;
        self.next_id += 1;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    /// Answers a request of the other end.
    pub async fn answer(&mut self, request: &Value, result: Value) {
        self.write(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).await;
    }

    /// Answers a request of the other end with an error.
    pub async fn refuse(&mut self, request: &Value, error: Value) {
        self.write(&json!({"jsonrpc": "2.0", "id": request["id"], "error": error})).await;
    }

    /// Returns the next line, or `None` at the end of the connection.
    pub async fn read_line(&mut self) -> Option<String> {
        let next = self.lines.next_line();
        let line = match self.line_timeout {
            Some(limit) => timeout(limit, next).await.expect("a line arrives in time"),
            None => next.await,
        };
        let line = line.expect("the connection is readable")?;
        self.last_line.clone_from(&line);
        Some(line)
    }

    /// Returns the next message, or `None` at the end of the connection.
    pub async fn read(&mut self) -> Option<Value> {
        let line = self.read_line().await?;
        Some(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}")))
    }

    /// Returns the next message.
    pub async fn receive(&mut self) -> Value {
        self.read().await.expect("the other end keeps the connection open")
    }

    /// Waits for the response to a request, and skips other messages.
    pub async fn response(&mut self, id: u64) -> Value {
        self.receive_until(id).await.pop().unwrap_or_default()
    }

    /// Sends a request and returns its response. Messages that arrive before the response are skipped.
    pub async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        self.response(id).await
    }

    /// Sends a request, and returns the messages up to and including its response.
    pub async fn ask_all(&mut self, method: &str, params: Value) -> Vec<Value> {
        let id = self.send(method, params).await;
        self.receive_until(id).await
    }

    async fn receive_until(&mut self, id: u64) -> Vec<Value> {
        let mut received = Vec::new();
        loop {
            let message = self.receive().await;
            let is_response = message["id"] == id && message.get("method").is_none();
            received.push(message);
            if is_response {
                return received;
            }
        }
    }

    /// Waits for a message of the other end with this method, and skips other messages.
    pub async fn asked(&mut self, method: &str) -> Value {
        loop {
            let message = self.receive().await;
            if message["method"] == method {
                return message;
            }
        }
    }

    /// Receives the next message, which must be a request of `method`; answers and returns it.
    pub async fn serve(&mut self, method: &str, result: Value) -> Value {
        let request = self.receive().await;
        assert_eq!(request["method"], method, "{request}");
        self.answer(&request, result).await;
        request
    }

    /// Returns the last line that was received.
    #[must_use]
    pub fn last_line(&self) -> &str {
        &self.last_line
    }
}

/// Returns the params of `initialize` for a revision and capabilities.
#[must_use]
pub fn hello(revision: &str, capabilities: &Value) -> Value {
    let client = json!({"name": "raw", "version": "1"});
    json!({"protocolVersion": revision, "capabilities": capabilities, "clientInfo": client})
}

/// Returns the `_meta` of a modern request, with the capabilities of the client.
#[must_use]
pub fn modern_meta(capabilities: &Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}
