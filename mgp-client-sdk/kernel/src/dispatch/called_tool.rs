//! Finds the server of a called tool, decides whether the caller has access to the tool, and sends the call.

use std::sync::Arc;

use mgp_client_sdk::Hop;
use mgp_toolindex::IndexedTool;
use mgp_types::service::{BoxFuture, Call, Context, Reply, Visibility as _};
use mgp_types::{ErrorCode, RpcError};

use super::dispatcher::{Dispatcher, DispatcherParts};
use crate::fleet::ManagedServer;

/// The tool of a call, with its server.
pub(super) struct CalledTool {
    pub(super) server: Arc<ManagedServer>,
    pub(super) tool: IndexedTool,
    /// `false` if the caller has no access to the tool. The call is sent nevertheless, because the security checks then
    /// refuse it and record the refusal.
    pub(super) has_access: bool,
}

impl CalledTool {
    /// Finds the server of a tool, and decides whether the caller has access to the tool. `is_visible` is `true` if the
    /// caller certainly sees the tool.
    pub(super) fn find(
        dispatcher: &Dispatcher,
        cx: &Context,
        tool: IndexedTool,
        is_visible: bool,
    ) -> Result<Self, RpcError> {
        let DispatcherParts { fleet, view, .. } = dispatcher.parts();
        let server = fleet.get(tool.server_id()).ok_or_else(|| server_removed(&tool))?;
        let sees = is_visible || view.sees(cx, Some(server.id()), tool.name()).is_ok();
        // Check the access again if this request continues an earlier call, e.g. with the answer to a question: the
        // credentials of this request may permit less than those of the earlier one.
        let is_lost = Hop::is_continued(cx) && !view.may_call(cx, &tool);
        Ok(Self { server, tool, has_access: sees && !is_lost })
    }

    /// Sends a call to the server, as a task if the tool runs as one.
    pub(super) fn send(&self, call: Call) -> BoxFuture<'_, Result<Reply, RpcError>> {
        if self.may_be_task(call.cx()) {
            Box::pin(self.call_as_task(call))
        } else {
            self.server.send(call, self.has_access)
        }
    }
}

fn server_removed(tool: &IndexedTool) -> RpcError {
    let server = tool.server_id();
    let message = format!("the server `{server}` was removed; find another tool");
    RpcError::new(ErrorCode::TOOL_NOT_FOUND, message)
}
