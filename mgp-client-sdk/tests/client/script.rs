//! A scripted server that sees every byte of the client.

use mgp_client_sdk::{Client, ClientBuilder, EraChoice};
use mgp_transport::{DuplexEnd, duplex};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};

pub(crate) struct Script {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

impl Script {
    /// Creates a connection: returns the client's end, and the scripted server at the other end.
    pub(crate) fn new() -> (DuplexEnd, Self) {
        let (here, DuplexEnd { reader, writer }) = duplex();
        (here, Self { lines: BufReader::new(reader).lines(), writer })
    }

    /// Returns the client's next message, or `None` if it disconnected.
    pub(crate) async fn read(&mut self) -> Option<Value> {
        let line = self.read_line().await?;
        Some(serde_json::from_str(&line).unwrap())
    }

    /// Returns the client's next message as raw text.
    pub(crate) async fn read_line(&mut self) -> Option<String> {
        self.lines.next_line().await.unwrap()
    }

    pub(crate) async fn say(&mut self, message: Value) {
        self.line(&message.to_string()).await;
    }

    /// Writes a raw line.
    pub(crate) async fn line(&mut self, text: &str) {
        self.writer.write_all(format!("{text}\n").as_bytes()).await.unwrap();
    }

    /// Answers a request.
    pub(crate) async fn answer(&mut self, request: &Value, result: Value) {
        self.say(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })).await;
    }

    /// Sends a notification.
    pub(crate) async fn tell(&mut self, method: &str, params: Value) {
        self.say(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    /// Receives the next message, which must be a request of `method`; answers and returns it.
    pub(crate) async fn serve(&mut self, method: &str, result: Value) -> Value {
        let request = self.read().await.unwrap();
        assert_eq!(request["method"], method, "{request}");
        self.answer(&request, result).await;
        request
    }

    /// Answers `initialize`, and waits for `notifications/initialized`; returns the request `initialize`.
    pub(crate) async fn initialize(&mut self, revision: &str, capabilities: Value) -> Value {
        let result = json!({
            "protocolVersion": revision,
            "capabilities": capabilities,
            "serverInfo": { "name": "script", "version": "1" },
        });
        let hello = self.serve("initialize", result).await;
        assert_eq!(self.read().await.unwrap()["method"], "notifications/initialized");
        hello
    }

    /// Answers `server/discover`.
    pub(crate) async fn discover(&mut self, capabilities: Value) -> Value {
        let result = json!({
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": capabilities,
            "ttlMs": 1000,
            "cacheScope": "private",
        });
        self.serve("server/discover", result).await
    }

    /// A client connected to a legacy server with these capabilities.
    pub(crate) async fn legacy(builder: ClientBuilder, capabilities: Value) -> (Client, Self) {
        let (end, mut script) = Self::new();
        let builder = builder.era(EraChoice::Legacy);
        let connecting = builder.connect(end.reader, end.writer);
        let (client, _) = tokio::join!(connecting, script.initialize("2025-11-25", capabilities));
        (client.unwrap(), script)
    }

    /// A client connected to a modern server with these capabilities.
    pub(crate) async fn modern(builder: ClientBuilder, capabilities: Value) -> (Client, Self) {
        let (end, mut script) = Self::new();
        let builder = builder.era(EraChoice::Modern);
        let connecting = builder.connect(end.reader, end.writer);
        let (client, _) = tokio::join!(connecting, script.discover(capabilities));
        (client.unwrap(), script)
    }
}

pub(crate) fn plain() -> ClientBuilder {
    Client::builder("test", "1").without_mgp()
}
