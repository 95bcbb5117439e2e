//! Tool calls by plain HTTP, as described in the exported OpenAPI document: `POST /tools/NAME` with the arguments as
//! its body calls a tool, and `GET /tools` lists the tools.
//!
//! These requests pass through the same stack as messages, as requests of a modern client. Errors have the members of
//! JSON-RPC errors, without the rest of a JSON-RPC message.

use std::fmt::Write as _;

use bytes::Bytes;
use http::{HeaderValue, Method as HttpMethod, Response, StatusCode, header};
use http_body::Body;
use mgp_types::mcp::{Revision, key};
use mgp_types::method::{Request as _, ToolsCall, ToolsList};
use mgp_types::mgp::{Extension, MgpVersion};
use mgp_types::service::{Body as AnswerBody, Call, Method, Params, Peer, Reply};
use mgp_types::{ErrorCode, Payload, RpcError};
use percent_encoding::percent_decode_str;
use serde::Deserialize;

use super::body::HttpBody;
use super::post::{context, is_json};
use super::refusal::{Refusal, clip_text, json, plain_error};
use super::{ReceivedRequest, request_body};

/// The path of the list of tools, and the prefix of the paths of single tools.
const TOOLS: &str = "/tools";

/// A path that belongs to tools.
pub(super) enum ToolPath<'a> {
    /// The path of the list of tools.
    List,
    /// The path of a tool, with the URL-encoded name of the tool.
    Tool(&'a str),
}

impl<'a> ToolPath<'a> {
    /// Returns the list or the tool that a path names; `None` if the path does not belong to tools.
    pub(super) fn parse(path: &'a str) -> Option<Self> {
        let rest = path.strip_prefix(TOOLS)?;
        match rest.strip_prefix('/') {
            None if rest.is_empty() => Some(Self::List),
            Some(name) if !name.is_empty() && !name.contains('/') => Some(Self::Tool(name)),
            _ => None,
        }
    }
}

impl ReceivedRequest<'_> {
    pub(super) async fn answer_tool_path<B>(
        &self,
        path: ToolPath<'_>,
        body: B,
    ) -> Result<Response<HttpBody>, Refusal>
    where
        B: Body<Data = Bytes>,
    {
        let expected = match path {
            ToolPath::List => HttpMethod::GET,
            ToolPath::Tool(_) => HttpMethod::POST,
        };
        if self.parts.method != expected {
            let allowed = if expected == HttpMethod::GET { "GET" } else { "POST" };
            return Err(Refusal::ToolMethod(clip_text(self.parts.method.as_str()), allowed));
        }
        let principal = self.principal()?;
        let config = &self.state.config;
        let mut load = self.state.load.admit(&principal, config.in_flight)?;
        let (method, params) = match path {
            ToolPath::List => (ToolsList::METHOD, list_params(self.parts.uri.query())),
            ToolPath::Tool(name) => {
                let reading = request_body::read_text(&self.headers, body, None, config, &mut load);
                let text = reading.await?;
                let is_typed = self.headers.content_type.is_some_and(is_json);
                if !is_typed && !text.is_empty() {
                    return Err(Refusal::ContentType);
                }
                let has_key = self.headers.idempotency_key.is_some();
                (ToolsCall::METHOD, call_params(name, &text, has_key))
            }
        };
        let params = Params::split(method, params?.into())
            .map_err(|error| Refusal::Message(error.without_recovery(), None))?;
        let request = self.state.handles.enter(principal, None);
        let cx = context(Peer::none(), &request.scope, &request.principal, self);
        let call = Call::request(Method::of(method), params, cx);
        let outcome = self.state.stack.send(call).await;
        // A call can take so long that the credentials of its request become invalid before it ends.
        self.check_credentials()?;
        Ok(answer(outcome, method))
    }
}

/// Encodes the params of a tool call from the tool's URL-encoded name and the body.
fn call_params(name: &str, body: &str, has_key: bool) -> Result<String, Refusal> {
    let name = percent_decode_str(name).decode_utf8();
    let name = name.map_err(|_| invalid("the name of the tool is not UTF-8"))?;
    let arguments = if body.trim().is_empty() { "{}" } else { body.trim() };
    if !arguments.starts_with('{') {
        return Err(invalid("the body must be a JSON object: the arguments of the tool"));
    }
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(arguments) {
        return Err(invalid(&format!("the body is not JSON: {error}")));
    }
    let name = serde_json::Value::from(&*name);
    Ok(format!(r#"{{"name":{name},"arguments":{arguments},"_meta":{}}}"#, caller_meta(has_key)))
}

/// Encodes the params of a list request; `?cursor=` in the query names the page.
fn list_params(query: Option<&str>) -> Result<String, Refusal> {
    let cursor = query.unwrap_or_default().split('&').find_map(|pair| pair.strip_prefix("cursor="));
    let Some(cursor) = cursor else { return Ok(format!(r#"{{"_meta":{}}}"#, caller_meta(false))) };
    let cursor = percent_decode_str(cursor).decode_utf8();
    let cursor = cursor.map_err(|_| invalid("the cursor is not UTF-8"))?;
    Ok(format!(
        r#"{{"cursor":{},"_meta":{}}}"#,
        serde_json::Value::from(&*cursor),
        caller_meta(false)
    ))
}

/// Returns the `_meta` of a modern client that negotiated MGP's error codes and, if its request has the header
/// `X-Idempotency-Key`, the extension `idempotency`.
fn caller_meta(has_key: bool) -> String {
    let (revision, version) = (Revision::MODERN, MgpVersion::DEFAULT);
    let mut names = format!("\"{}\"", Extension::ErrorHandling);
    if has_key {
        let _ = write!(names, ",\"{}\"", Extension::Idempotency);
    }
    format!(
        r#"{{"{}":"{revision}","{}":{{"extensions":{{"{}":{{"version":"{}","extensions":[{names}]}}}}}}}}"#,
        key::PROTOCOL_VERSION,
        key::CLIENT_CAPABILITIES,
        key::MGP,
        version.as_str(),
    )
}

fn invalid(why: &str) -> Refusal {
    Refusal::Message(RpcError::invalid_params(why).without_recovery(), None)
}

/// Returns the response for the outcome of a call.
fn answer(outcome: Result<Reply, RpcError>, method: &str) -> Response<HttpBody> {
    match outcome {
        Ok(Reply::Complete(body)) if method == ToolsCall::METHOD => {
            match serde_json::from_slice::<ToolOutcome>(&body.to_json()) {
                Ok(result) if result.is_error => {
                    failed(StatusCode::UNPROCESSABLE_ENTITY, &result.into_error())
                }
                Ok(result) => json(StatusCode::OK, result.into_body()),
                Err(error) => failure(&RpcError::internal(format!("unexpected result: {error}"))),
            }
        }
        Ok(Reply::Complete(body)) => list_body(&body),
        Ok(Reply::Task(body)) => json(StatusCode::ACCEPTED, body.to_json()),
        Ok(_) => {
            let why =
                "the tool asks for input, which a plain HTTP call cannot give; use an MCP client";
            failure(&RpcError::new(ErrorCode::MISSING_CLIENT_CAPABILITY, why))
        }
        Err(error) => failure(&error),
    }
}

/// Returns one page of the list: the tools, and the cursor of the next page.
fn list_body(body: &AnswerBody) -> Response<HttpBody> {
    let mut page = String::from(r#"{"tools":"#);
    page.push_str(body.get("tools").as_ref().map_or("[]", Payload::as_str));
    if let Some(cursor) = body.get("nextCursor") {
        page.push_str(r#","nextCursor":"#);
        page.push_str(cursor.as_str());
    }
    page.push('}');
    json(StatusCode::OK, page.into_bytes())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolOutcome {
    #[serde(default)]
    content: Option<Payload>,
    #[serde(default)]
    structured_content: Option<Payload>,
    #[serde(default)]
    is_error: bool,
}

impl ToolOutcome {
    /// Returns the structured content or, if there is none, the content blocks.
    fn into_body(self) -> Vec<u8> {
        match (self.structured_content, self.content) {
            (Some(structured), _) => structured.as_str().as_bytes().to_vec(),
            (None, content) => {
                let content = content.as_ref().map_or("[]", Payload::as_str);
                format!(r#"{{"content":{content}}}"#).into_bytes()
            }
        }
    }

    /// Returns the failure of a tool as an error with the text of its content.
    fn into_error(self) -> RpcError {
        #[derive(Deserialize)]
        struct Block {
            #[serde(default)]
            text: Option<String>,
        }
        let blocks = self.content.as_ref().and_then(|content| content.get::<Vec<Block>>().ok());
        let texts = blocks.unwrap_or_default().into_iter().filter_map(|block| block.text);
        let message = texts.collect::<Vec<_>>().join("\n");
        let message = if message.is_empty() { "the tool failed".to_owned() } else { message };
        let error = RpcError::new(ErrorCode::UPSTREAM_ERROR, message).without_recovery();
        match self.structured_content {
            Some(data) => error.data(data),
            None => error,
        }
    }
}

fn failure(error: &RpcError) -> Response<HttpBody> {
    failed(status(error.code()), error)
}

fn failed(status: StatusCode, error: &RpcError) -> Response<HttpBody> {
    let wait = error.as_recovery().and_then(|recovery| recovery.retry_after_ms);
    let mut response = json(status, plain_error(error));
    if let Some(wait) = wait {
        let seconds = HeaderValue::from(wait.div_ceil(1_000).max(1));
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    response
}

fn status(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::PARSE_ERROR
        | ErrorCode::INVALID_REQUEST
        | ErrorCode::INVALID_PARAMS
        | ErrorCode::INVALID_TOOL_ARGS => StatusCode::BAD_REQUEST,
        ErrorCode::AUTH_REQUIRED | ErrorCode::AUTH_EXPIRED => StatusCode::UNAUTHORIZED,
        ErrorCode::TOOL_NOT_FOUND | ErrorCode::METHOD_NOT_FOUND | ErrorCode::RESOURCE_NOT_FOUND => {
            StatusCode::NOT_FOUND
        }
        ErrorCode::TOOL_DISABLED
        | ErrorCode::TOOL_NAME_CONFLICT
        | ErrorCode::MISSING_CLIENT_CAPABILITY => StatusCode::CONFLICT,
        ErrorCode::TIMEOUT | ErrorCode::UPSTREAM_TIMEOUT => StatusCode::GATEWAY_TIMEOUT,
        ErrorCode(1000..=1099) => StatusCode::FORBIDDEN,
        ErrorCode(2000..=2099) => StatusCode::SERVICE_UNAVAILABLE,
        ErrorCode(3000..=3099) => StatusCode::TOO_MANY_REQUESTS,
        ErrorCode(5000..=5099) => StatusCode::BAD_GATEWAY,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_guide_has_the_status_of_every_code() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/mgp-serve.md");
        let page = std::fs::read_to_string(path).unwrap();
        let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
        let listed: Vec<&str> = rows.flat_map(|cell| cell.split(", ")).collect();
        for code in ErrorCode::KNOWN {
            let status = status(*code);
            assert!(listed.contains(&status.as_str()), "{code}: {status}");
        }
    }
}
