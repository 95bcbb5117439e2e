//! An attacker's end of a connection: writes any bytes, as any principal.

use std::time::Duration;

use mgp_transport::{Connection, duplex};
use mgp_types::service::{Principal, Stack};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::time::timeout;

pub(crate) struct RawClient {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    next: u64,
    modern: bool,
}

impl RawClient {
    /// Connects as a principal, in the modern era with elicitation.
    pub(crate) fn modern(stack: &Stack, principal: Principal) -> Self {
        let (here, there) = duplex();
        let connection = Connection::new(there.reader, there.writer, stack.clone());
        tokio::spawn(connection.principal(principal).run());
        let lines = BufReader::new(here.reader).lines();
        Self { lines, writer: here.writer, next: 1, modern: true }
    }

    /// Connects as a principal, in a legacy revision with elicitation.
    pub(crate) async fn legacy(stack: &Stack, principal: Principal, revision: &str) -> Self {
        let mut raw = Self::modern(stack, principal);
        raw.modern = false;
        let hello = json!({
            "protocolVersion": revision,
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "raw", "version": "1"},
        });
        raw.ask("initialize", hello).await;
        raw.line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        raw
    }

    /// Writes a raw line.
    pub(crate) async fn line(&mut self, text: &str) {
        self.writer.write_all(format!("{text}\n").as_bytes()).await.unwrap();
    }

    pub(crate) async fn say(&mut self, message: &Value) {
        self.line(&message.to_string()).await;
    }

    /// Returns the next message; fails if there is none in time.
    pub(crate) async fn hear(&mut self) -> Value {
        let line = timeout(Duration::from_secs(20), self.lines.next_line()).await;
        serde_json::from_str(&line.expect("no answer").unwrap().unwrap()).unwrap()
    }

    /// Sends a request and returns its id.
    pub(crate) async fn send(&mut self, method: &str, mut params: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        if self.modern {
            let meta = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
            });
            for (name, value) in meta.as_object().unwrap() {
                params["_meta"][name] = value.clone();
            }
        }
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    /// Waits for the response of a request; skips other messages.
    pub(crate) async fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.hear().await;
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

    /// Waits for a message of the server with this method; skips other messages.
    pub(crate) async fn asked(&mut self, method: &str) -> Value {
        loop {
            let message = self.hear().await;
            if message["method"] == method {
                return message;
            }
        }
    }

    /// Answers a request of the server.
    pub(crate) async fn reply(&mut self, request: &Value, result: Value) {
        self.say(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).await;
    }
}

/// Returns an answer that accepts a confirmation.
pub(crate) fn accept_answer() -> Value {
    json!({"action": "accept", "content": {"confirm": true}})
}

/// Returns the code of a refusal in either era, or 0 if there is none.
#[track_caller]
pub(crate) fn code(answer: &Value) -> i64 {
    assert!(answer.get("result").is_some() || answer.get("error").is_some(), "{answer}");
    let result = &answer["result"];
    let refused =
        if result["isError"] == true { &result["structuredContent"] } else { &answer["error"] };
    refused["code"].as_i64().unwrap_or(0)
}

/// Returns the key of the only question in a result that asks for input, and the state in that result.
#[track_caller]
pub(crate) fn question(answer: &Value) -> (String, String) {
    let result = &answer["result"];
    assert_eq!(result["resultType"], "input_required", "{answer}");
    let asked = result["inputRequests"].as_object().unwrap();
    assert_eq!(asked.len(), 1, "{answer}");
    (asked.keys().next().unwrap().clone(), result["requestState"].as_str().unwrap().to_owned())
}
