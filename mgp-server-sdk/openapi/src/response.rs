//! Converts responses of an API to results of tools.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mgp_server_sdk::ToolError;
use mgp_types::mcp::{CallToolResult, ContentBlock, ImageContent};
use mgp_types::service::{FetchResponse, shown_url};
use mgp_types::{Payload, clip};

/// The maximum length of the body of an error response that is passed to the model.
const MAX_REASON: usize = 4 << 10;

/// Returns the tool result for a response.
pub(crate) fn result(response: &FetchResponse) -> Result<CallToolResult, ToolError> {
    let status = response.status;
    let kind = response.header("content-type").unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if (300..400).contains(&status) {
        // An API repeats the query in the new address, and the query may contain a key of the operator.
        let to =
            response.header("location").map_or_else(|| "another address".to_owned(), shown_url);
        return Err(ToolError(format!(
            "HTTP {status}: the API redirects to {to}, which is not followed"
        )));
    }
    let text = std::str::from_utf8(&response.body).ok();
    if !(200..300).contains(&status) {
        let reason = text.map(|text| clip(text.trim(), MAX_REASON)).unwrap_or_default();
        return Err(ToolError(
            format!("HTTP {status}: {reason}").trim_end_matches(": ").to_owned(),
        ));
    }
    if response.body.is_empty() {
        return Ok(CallToolResult::text(format!("HTTP {status}, without a body")));
    }
    if kind.starts_with("image/") {
        return Ok(image(&kind, &response.body));
    }
    let Some(text) = text else {
        let bytes = response.body.len();
        return Ok(CallToolResult::text(format!(
            "HTTP {status}: {bytes} bytes of `{kind}`, which is no text"
        )));
    };
    let mut result = CallToolResult::text(text);
    let is_json = kind == "application/json" || kind.ends_with("+json");
    if is_json && text.trim_start().starts_with('{') {
        result.structured_content = Payload::parse(text.trim()).ok();
    }
    Ok(result)
}

fn image(kind: &str, body: &[u8]) -> CallToolResult {
    let mut result = CallToolResult::text("");
    result.content = vec![ContentBlock::Image(ImageContent::new(STANDARD.encode(body), kind))];
    result
}
