//! A caller of either era that adds the headers and members that the era requires in each message.

use std::net::SocketAddr;

use mgp_types::mcp::Era;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::wire::{Response, send};
use super::world::World;

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

#[derive(Clone)]
pub(crate) struct Caller {
    to: SocketAddr,
    era: Era,
    capabilities: Value,
    key: Option<String>,
    /// The handle that a modern caller sends with its requests; a request can cancel only a call with the same handle.
    pub(crate) handle: Option<&'static str>,
    pub(crate) session: Option<String>,
}

/// Returns the MGP capabilities of a client that supports streaming.
pub(crate) fn streaming() -> Value {
    json!({ "mgp": { "version": "0.6.0", "extensions": ["streaming"] } })
}

impl Caller {
    /// Creates a caller with an optional API key; nothing is sent yet.
    pub(crate) fn new(world: &World, era: Era, capabilities: Value, key: Option<&str>) -> Self {
        let key = key.map(str::to_owned);
        Self { to: world.address, era, capabilities, key, handle: None, session: None }
    }

    pub(crate) async fn legacy(world: &World, capabilities: Value, key: Option<&str>) -> Self {
        let mut caller = Self::new(world, Era::Legacy, capabilities, key);
        caller.open_as(LEGACY).await;
        caller
    }

    pub(crate) fn modern(world: &World, capabilities: Value, key: Option<&str>) -> Self {
        Self::new(world, Era::Modern, capabilities, key)
    }

    /// Opens a session with this revision.
    pub(crate) async fn open_as(&mut self, revision: &str) {
        let params = mgp_testkit::hello(revision, &self.capabilities);
        let answer = self.request(0, "initialize", params).await;
        assert_eq!(answer.status, 200);
        self.session = Some(answer.header("mcp-session-id").unwrap().to_owned());
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(self.post(&ready).await.status, 202);
        // The server handles the notification `initialized` concurrently, and refuses requests of the session until it
        // has handled it.
        while self.request(0, "tools/list", json!({})).await.message().await.get("error").is_some()
        {
            tokio::task::yield_now().await;
        }
    }

    /// Returns a request of this caller's era.
    pub(crate) fn message(&self, id: impl Into<Value>, method: &str, mut params: Value) -> Value {
        if self.era == Era::Modern {
            let meta = &mut params["_meta"];
            meta["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
            meta["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
            if let Some(handle) = self.handle {
                meta["dev.cloto/mgp/handle"] = handle.into();
            }
        }
        let id = id.into();
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
    }

    /// Sends a request of this caller's era.
    pub(crate) async fn request(
        &self,
        id: impl Into<Value>,
        method: &str,
        params: Value,
    ) -> Response {
        self.post(&self.message(id, method, params)).await
    }

    pub(crate) async fn call(
        &self,
        id: impl Into<Value>,
        tool: &str,
        arguments: Value,
    ) -> Response {
        self.request(id, "tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    /// Calls a tool on a task, which closes the connection when it is aborted.
    pub(crate) fn spawn_call(
        &self,
        id: u32,
        tool: &'static str,
        arguments: Value,
    ) -> JoinHandle<Response> {
        let caller = self.clone();
        tokio::spawn(async move { caller.call(id, tool, arguments).await })
    }

    /// Calls a tool that reports progress.
    pub(crate) async fn follow(
        &self,
        id: impl Into<Value>,
        tool: &str,
        arguments: Value,
    ) -> Response {
        let meta = json!({ "progressToken": "p" });
        let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
        self.request(id, "tools/call", params).await
    }

    pub(crate) async fn post(&self, message: &Value) -> Response {
        self.post_as("application/json", message, message.to_string().as_bytes()).await
    }

    /// Posts a body of this media type, which contains the message.
    pub(crate) async fn post_as(&self, kind: &str, message: &Value, body: &[u8]) -> Response {
        let mut headers = self.headers();
        headers.push(("Content-Type", kind));
        if self.era == Era::Modern {
            headers.push(("Mcp-Method", message["method"].as_str().unwrap_or_default()));
            if let Some(name) = message["params"]["name"].as_str() {
                headers.push(("Mcp-Name", name));
            }
        }
        send(self.to, "POST", &headers, body).await
    }

    /// Opens the stream of the session, or resumes a stream after the event with the id `last`.
    pub(crate) async fn get(&self, last: Option<&str>) -> Response {
        let mut headers = self.headers();
        headers.extend(last.map(|last| ("Last-Event-ID", last)));
        send(self.to, "GET", &headers, "").await
    }

    pub(crate) async fn delete(&self) -> Response {
        send(self.to, "DELETE", &self.headers(), "").await
    }

    fn headers(&self) -> Vec<(&str, &str)> {
        let mut headers = vec![("Accept", "application/json, text/event-stream")];
        if self.era == Era::Modern {
            headers.push(("MCP-Protocol-Version", MODERN));
        }
        headers.extend(self.session.as_deref().map(|session| ("Mcp-Session-Id", session)));
        headers.extend(self.key.as_deref().map(|key| ("Authorization", key)));
        headers
    }
}

pub(crate) fn result_text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}
