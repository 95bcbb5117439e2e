//! Tests of the tasks layer in both eras, with the mock client and paused time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mgp_types::mcp::{Revision, TaskStatus, TaskSupport};
use mgp_types::service::mock::{self, Client};
use mgp_types::service::{
    AcceptedRequests, BoxFuture, Call, CallerAccess, CallerChannel, CallerRequest, ConsumerGone,
    Context, CredentialGrant, Outlet, OutletItem, PeerInfo, Principal, Reply, RoundState, Rounds,
    Sink, Stack,
};
use mgp_types::{Payload, RpcError};
use serde_json::Value;
use tokio::time::sleep;
use tower_layer::Layer;

use super::{TaskTables, TaskTicket, TasksConfig, TasksLayer};
use crate::error::LifecycleError;

mod bounds;
mod ending;
mod legacy;
mod questions;
mod request;

const OFFER: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}},"elicitation":{}}"#;

fn config() -> TasksConfig {
    TasksConfig { grace: Duration::ZERO, ..TasksConfig::default() }
}

fn layer(config: TasksConfig) -> TasksLayer {
    TasksLayer::new(config, |tool| match tool {
        "plain" => TaskSupport::Forbidden,
        "must" => TaskSupport::Required,
        _ => TaskSupport::Optional,
    })
}

fn modern(stack: Stack) -> Client {
    let mut client = mock::client(stack);
    let mut facts = PeerInfo::new(Revision::MODERN);
    facts.capabilities = Some(Payload::from_trusted(OFFER));
    facts.accepts.elicitation = true;
    client.cx.caller = Arc::new(facts);
    client
}

fn legacy(stack: Stack) -> Client {
    let mut client = mock::client(stack);
    client.cx.caller = Arc::new(PeerInfo::new(Revision::V2025_11_25));
    client
}

/// Returns a stack that consists of the layer and a tool.
fn over<F, Fut>(layer: &TasksLayer, tool: F) -> Stack
where
    F: Fn(Call) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Reply, RpcError>> + Send + 'static,
{
    Stack::new(layer.layer(Stack::from_fn(tool)))
}

fn text_result(text: &str) -> Result<Reply, RpcError> {
    Reply::of(&serde_json::json!({ "content": [{ "type": "text", "text": text }] }))
}

async fn slow(_: Call) -> Result<Reply, RpcError> {
    sleep(Duration::from_mins(1)).await;
    text_result("done")
}

fn elicit() -> CallerRequest {
    CallerRequest::new("elicitation/create", Payload::from_trusted(r#"{"message":"sure?"}"#))
}

async fn request(client: &mut Client, method: &str, params: &str) -> Value {
    client.request(method, params).await.unwrap().get().unwrap()
}

async fn call(client: &mut Client) -> Value {
    request(client, "tools/call", r#"{"name":"a"}"#).await
}

async fn call_as_task(client: &mut Client) -> String {
    let result = request(client, "tools/call", r#"{"name":"a","task":{"ttl":60000}}"#).await;
    result["task"]["taskId"].as_str().unwrap().to_owned()
}

async fn code(client: &mut Client, method: &str, params: &str) -> i32 {
    client.request(method, params).await.unwrap_err().code().0
}

fn named(task: &Value) -> String {
    format!(r#"{{"taskId":{}}}"#, task["taskId"])
}

async fn get(client: &mut Client, task: &Value) -> Value {
    request(client, "tasks/get", &named(task)).await
}

async fn settle() {
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
}

/// Counts how many values of this type exist.
struct LiveGuard(Arc<AtomicUsize>);

impl LiveGuard {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for LiveGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
