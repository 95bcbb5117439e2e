//! Routes tool calls to servers, and translates between the eras of caller and server.

mod answers;
mod callee_rounds;
mod hop;
mod parked_call;
mod parked_calls;
mod round_channel;
mod round_outlet;
mod rounds_caller;
mod task_waiter;

use std::collections::HashMap;
use std::sync::Arc;

use mgp_types::service::{BoxFuture, Call, Reply, Router};
use mgp_types::{ErrorCode, RpcError};
use tower_service::Service;

pub use hop::{AwaitLegacyTask, Hop};
pub use task_waiter::{await_tasks, awaits_task};

/// A service that sends each tool call to the server that has the tool.
///
/// A gateway is a server with this service as its endpoint of tool calls, and a client for each server to which it
/// forwards:
///
/// ```
/// use mgp_client_sdk::types::mcp::ListToolsResult;
/// use mgp_client_sdk::types::method::{Request, ToolsCall, ToolsList};
/// use mgp_client_sdk::types::service::{Router, Stack};
/// use mgp_client_sdk::{Client, Hop, TestClient, ToolRouter};
/// use mgp_server_sdk::{Server, Tool};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let clock = Server::new("clock", "1.0").tool(Tool::new("now", "The time", || async { "noon" }));
/// let client = TestClient::new(clock).await;
///
/// let (hop, tools) = (Hop::new("clock", Client::clone(&client)), client.list_tools().await.unwrap());
/// let router = tools.iter().fold(ToolRouter::new(), |all, tool| all.route(&tool.name, hop.clone()));
/// let endpoints = Router::new()
///     .route(ToolsCall::METHOD, Stack::new(router))
///     .on::<ToolsList, _, _>(move |_, _| std::future::ready(Ok(ListToolsResult::new(tools.clone()))));
/// let gateway = Server::new("gateway", "1.0").endpoints(endpoints).offer(|offer| {
///     offer.capabilities.tools.get_or_insert_default();
/// });
/// assert_eq!(TestClient::new(gateway).await.text("now", ()).await, "noon");
/// # });
/// ```
#[derive(Clone, Default)]
pub struct ToolRouter {
    tools: Arc<HashMap<String, Hop>>,
}

impl ToolRouter {
    /// Creates a tool router without tools.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool and the hop that receives its calls.
    #[must_use]
    pub fn route(mut self, tool: impl Into<String>, hop: Hop) -> Self {
        Arc::make_mut(&mut self.tools).insert(tool.into(), hop);
        self
    }
}

mgp_types::opaque_debug!(ToolRouter);

impl Service<Call> for ToolRouter {
    type Response = Reply;
    type Error = RpcError;
    type Future = BoxFuture<'static, Result<Reply, RpcError>>;
    mgp_types::always_ready!(innermost);

    fn call(&mut self, call: Call) -> Self::Future {
        let Some(tool) = call.tool() else {
            // Pass the message to a router without routes, which handles it as a message of an unknown method.
            return Router::new().call(call);
        };
        if let Some(hop) = self.tools.get(tool.name) {
            hop.send(call)
        } else {
            let shown = mgp_types::clip(tool.name, 80);
            let message = format!("unknown tool `{shown}`; use a name from `tools/list`");
            let error = RpcError::new(ErrorCode::TOOL_NOT_FOUND, message);
            Box::pin(std::future::ready(Err(error)))
        }
    }
}
