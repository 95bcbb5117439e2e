//! Adds a category and advice to errors, for callers that negotiated the extension `structured_errors`.
//!
//! Applies to: inbound.

use mgp_types::mcp::{CallToolResult, ContentBlock};
use mgp_types::mgp::Extension;
use mgp_types::proposal::{ErrorKind, StructuredError};
use mgp_types::service::{BoxFuture, Call, Either, Kind, MgpService, Reply};
use mgp_types::{RpcError, clip};
use tower_service::Service;

/// The code for the failure of a tool that gives no code itself.
const TOOL_FAILED: &str = "TOOL_FAILED";

/// The maximum length of the message that is copied from the text of a failed tool, in bytes.
const MAX_MESSAGE: usize = 2_000;

/// Layer that adds `error.data.error` to errors, and `structuredContent.error` to results of tools that failed.
///
/// ```
/// use mgp_lifecycle::StructuredErrorsLayer;
/// use mgp_types::mgp::{Extension, ExtensionSet};
/// use mgp_types::service::{PeerInfo, Stack, mock};
/// use mgp_types::{ErrorCode, RpcError};
/// use std::sync::Arc;
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let busy = Stack::from_fn(|_| async { Err(RpcError::new(ErrorCode::SERVER_RESTARTING, "restarts")) });
/// let mut client = mock::client(Stack::new(StructuredErrorsLayer.layer(busy)));
/// let plain = client.request("tools/call", r#"{"name":"add"}"#).await.unwrap_err();
/// assert!(plain.as_data().is_none());
///
/// let mut caller = PeerInfo::default();
/// caller.mgp = Some(ExtensionSet::EMPTY.with(Extension::StructuredErrors));
/// client.cx.caller = Arc::new(caller);
/// let error = client.request("tools/call", r#"{"name":"add"}"#).await.unwrap_err();
/// assert!(error.as_data().unwrap().as_str().contains(r#""category":"transient","retry_after_seconds":1"#));
/// # });
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StructuredErrorsLayer;

mgp_types::layer_service! {
    /// The service that [`StructuredErrorsLayer`] creates.
    pub StructuredErrorsService for StructuredErrorsLayer
}

impl<S: MgpService> Service<Call> for StructuredErrorsService<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<S::Future, BoxFuture<'static, Result<Reply, RpcError>>>;

    mgp_types::always_ready!();

    fn call(&mut self, call: Call) -> Self::Future {
        let is_request = call.kind() == Kind::Request;
        if !is_request || !call.cx().caller.has(Extension::StructuredErrors) {
            return Either::Left { future: self.inner.call(call) };
        }
        let (is_tool_call, answer) = (call.tool().is_some(), self.inner.call(call));
        let future = Box::pin(async move {
            match answer.await {
                Err(error) => Err(StructuredError::from(&error).attach(error)),
                Ok(reply) if is_tool_call => Ok(describe_failure(reply)),
                Ok(reply) => Ok(reply),
            }
        });
        Either::Right { future }
    }
}

/// Adds the structured error to the result of a failed tool, unless the tool itself added one.
fn describe_failure(mut reply: Reply) -> Reply {
    let Some(body) = reply.as_body_mut() else { return reply };
    let text = body.as_raw().as_str();
    // Search the text before parsing it, because few results contain `isError`.
    if !(text.contains("\"isError\"") && text.contains("true")) {
        return reply;
    }
    let Ok(result) = body.as_raw().get::<CallToolResult>() else { return reply };
    if result.is_error != Some(true) {
        return reply;
    }
    let message = result.content.iter().find_map(|block| match block {
        ContentBlock::Text(text) => Some(clip(&text.text, MAX_MESSAGE)),
        _ => None,
    });
    let error =
        StructuredError::new(TOOL_FAILED, message.unwrap_or_default(), ErrorKind::Permanent);
    if let Some(content) = error.in_content(result.structured_content.as_ref()) {
        body.insert("structuredContent", content);
    }
    reply
}
