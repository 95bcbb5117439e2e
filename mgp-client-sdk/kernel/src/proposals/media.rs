//! Media types and sizes of tools (proposal 10).

use mgp_toolindex::{IndexedTool, ToolFeature};
use mgp_types::RpcError;
use mgp_types::mcp::Tool;
use mgp_types::mgp::Extension;
use mgp_types::proposal::{MediaSignature, check_input_size};
use mgp_types::service::{Call, Context, PeerInfo};

/// Refuses a call whose input is larger than its tool accepts, before the call is sent to the server.
///
/// # Errors
/// Returns 3001, naming the size of the input and the limit.
pub(crate) fn check(call: &Call, tool: &IndexedTool) -> Result<(), RpcError> {
    if !call.cx().caller.has(Extension::MultimodalSignatures)
        || !tool.may_use(ToolFeature::InputLimit)
    {
        return Ok(());
    }
    let definition = tool.tool()?;
    let max = MediaSignature::of(&definition).and_then(|media| media.max_input_size_bytes);
    let arguments = call.params().arguments().unwrap_or_default();
    max.map_or(Ok(()), |max| check_input_size(&definition, arguments, max))
}

/// Puts the media types that [`fold`] separated back into a definition, but only if the caller negotiated media types.
/// If the server did not negotiate them, they were not separated and stay as the server wrote them.
pub(crate) fn fit(cx: &Context, tool: &mut Tool) {
    if let Some(media) = MediaSignature::unfold(tool)
        && cx.caller.has(Extension::MultimodalSignatures)
    {
        media.put(tool);
    }
}

/// Separates the media types in a definition from the rest of it, if the server negotiated media types.
pub(crate) fn fold(server: &PeerInfo, tool: &mut Tool) {
    if server.has(Extension::MultimodalSignatures)
        && let Err(error) = MediaSignature::fold(tool)
    {
        tracing::warn!(tool = %tool.name, %error, "media types of a tool left out");
    }
}
