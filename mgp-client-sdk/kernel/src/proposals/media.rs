//! Media types and sizes of tools' inputs (extension `multimodal_signatures`).

use mgp_toolindex::{IndexedTool, ToolFeature};
use mgp_types::RpcError;
use mgp_types::mcp::Tool;
use mgp_types::mgp::Extension;
use mgp_types::proposal::{MediaSignature, check_input_size};
use mgp_types::service::{Call, Context, PeerInfo};

/// Refuses a call whose input is larger than its tool accepts, before the call reaches the server.
///
/// # Errors
/// Returns 3001 (resource exhausted), with the size of the input and the limit.
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

/// Restores the media types that [`fold`] moved to the `_meta` of a definition, if the caller negotiated media types;
/// otherwise removes them. If the server did not negotiate them, `fold` moved nothing, and the definition stays as the
/// server wrote it.
pub(crate) fn fit(cx: &Context, tool: &mut Tool) {
    if let Some(media) = MediaSignature::unfold(tool)
        && cx.caller.has(Extension::MultimodalSignatures)
    {
        media.put(tool);
    }
}

/// Moves the media types of a definition to its `_meta`, if the server negotiated media types. Removes those that the
/// server itself wrote at this place, because [`fit`] would put them into the definition without a review.
pub(crate) fn fold(server: &PeerInfo, tool: &mut Tool) {
    MediaSignature::unfold(tool);
    if server.has(Extension::MultimodalSignatures)
        && let Err(error) = MediaSignature::fold(tool)
    {
        tracing::warn!(tool = %tool.name, %error, "media types of a tool left out");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_that_the_server_wrote_to_the_place_of_the_kernel_are_removed() {
        let text = r#"{"name":"t","inputSchema":{},"_meta":{"dev.cloto/mgp":{"media":{"max_input_size_bytes":1}}}}"#;
        let mut tool: Tool = serde_json::from_str(text).unwrap();
        assert!(MediaSignature::of(&tool).is_some());
        fold(&PeerInfo::default(), &mut tool);
        assert_eq!(MediaSignature::of(&tool), None);
        assert!(tool.meta.is_none());
    }
}
