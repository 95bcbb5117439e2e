//! The error about a result whose structured content does not fit the output schema of its tool.

use mgp_client_sdk::ToolResult as _;
use mgp_types::mcp::CallToolResult;
use mgp_types::service::Reply;
use mgp_types::{RpcError, clip};

/// The maximum length of a result's text in the error, in bytes.
const MAX_TEXT: usize = 8 << 10;

/// Adds the remedy and the text of the refused result to an error. The text is useful, because the call ran and the
/// schema applies only to the structured content.
pub(crate) fn with_text(error: &RpcError, refused: &Reply) -> RpcError {
    let text = refused.get().map(|result: CallToolResult| result.to_text()).unwrap_or_default();
    let mut message = format!(
        "{}; the call ran; `check_arguments = false` of the server turns this check off",
        error.message()
    );
    if !text.is_empty() {
        message.push_str("; the text of the result:\n");
        message.push_str(&clip(&text, MAX_TEXT));
    }
    RpcError::new(error.code(), message).because(error.clone())
}
