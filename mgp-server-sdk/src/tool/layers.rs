//! Layers around a single tool.

use std::sync::Arc;

use mgp_types::service::{BoxFuture, Call, Extensions, MgpService, Reply, Stack};
use mgp_types::{RpcError, mcp};
use tower_layer::Layer;
use tower_service::Service;

use super::Tool;
use super::extract::{ToolRequest, received_meta};

/// The layers of a tool, innermost first.
#[derive(Clone, Default)]
pub(super) struct Layers(Vec<Arc<dyn Fn(Stack) -> Stack + Send + Sync>>);

/// The server's state, stored in the extensions of a call while the call passes through the layers of a tool. The
/// layers pass on nothing but the call, so the state must be in it.
pub(super) struct CarriedState(pub(super) Arc<Extensions>);

impl Layers {
    pub(super) fn push<L>(&mut self, layer: L)
    where
        L: Layer<Stack> + Send + Sync + 'static,
        L::Service: MgpService,
    {
        self.0.push(Arc::new(move |stack| Stack::new(layer.layer(stack))));
    }

    /// Wraps the tool in its layers. Returns `None` for a tool without layers, which runs faster without a stack.
    pub(super) fn wrap(&self, tool: &Arc<Tool>, definition: &Arc<mcp::Tool>) -> Option<Stack> {
        if self.0.is_empty() {
            return None;
        }
        let bare = InnermostTool { tool: Arc::clone(tool), definition: Arc::clone(definition) };
        Some(self.0.iter().fold(Stack::new(bare), |stack, layer| layer(stack)))
    }
}

mgp_types::opaque_debug!(Layers);

/// The tool as the innermost service.
#[derive(Clone)]
struct InnermostTool {
    tool: Arc<Tool>,
    definition: Arc<mcp::Tool>,
}

impl Service<Call> for InnermostTool {
    type Response = Reply;
    type Error = RpcError;
    type Future = BoxFuture<'static, Result<Reply, RpcError>>;
    mgp_types::always_ready!(innermost);

    fn call(&mut self, call: Call) -> Self::Future {
        let (arguments, meta) = (call.tool_arguments(), received_meta(&call));
        let (_, _, cx) = call.into_parts();
        let state =
            cx.extensions.get::<CarriedState>().map(|CarriedState(state)| Arc::clone(state));
        let definition = Arc::clone(&self.definition);
        let request = ToolRequest::new(definition, arguments, cx, state.unwrap_or_default());
        let running = self.tool.start(request.with_meta(meta));
        Box::pin(running)
    }
}
