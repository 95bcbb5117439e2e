//! The headers of one call, which repeat what intermediaries route by (MCP 2026-07-28, standard headers).
//!
//! Applies to: outbound.

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use mgp_types::mcp::key;
use mgp_types::service::{Call, HeaderParams, HeaderTarget, encode_header};

use super::error::Fault;

pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(super) const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The headers of every POST.
pub(super) fn posting() -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    headers
}

/// The revision a modern call names in its `_meta`; `None` for a legacy one.
pub(super) fn modern_revision(call: &Call) -> Option<String> {
    let (_, revision) = call.hop().meta.iter().find(|(name, _)| name == key::PROTOCOL_VERSION)?;
    revision.get().ok()
}

/// Adds what a modern call repeats: revision, method, target, and the parameters a tool wants in headers.
pub(super) fn modern(headers: &mut HeaderMap, call: &Call, revision: &str) -> Result<(), Fault> {
    put(headers, REVISION, revision)?;
    put(headers, METHOD, call.method().as_str())?;
    if let Some(target) = HeaderTarget::of(call.method(), call.params()) {
        put(headers, NAME, target.as_str())?;
    }
    let params = call.cx().extensions.get::<HeaderParams>();
    for (name, value) in params.into_iter().flat_map(HeaderParams::iter) {
        let wrong = || Fault::Header(format!("Mcp-Param-{name}"));
        let header = HeaderName::from_bytes(format!("mcp-param-{name}").as_bytes());
        let value = HeaderValue::from_str(value).map_err(|_| wrong())?;
        headers.append(header.map_err(|_| wrong())?, value);
    }
    Ok(())
}

fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) -> Result<(), Fault> {
    let value = HeaderValue::from_str(&encode_header(value))
        .map_err(|_| Fault::Header(name.to_string()))?;
    headers.insert(name, value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use mgp_types::service::{Context, Method, Params, Peer, Principal, Scope, ScopeKind};

    use super::*;

    #[track_caller]
    fn check(method: &str, params: &str, name: Option<&str>) {
        let cx = Context::new(Peer::none(), Scope::new(ScopeKind::Session), Principal::local());
        let params = Params::split(method, params.to_owned().into()).unwrap();
        let mut call = Call::request(Method::of(method), params, cx);
        let mut more = HeaderParams::new();
        more.push("Region", "eu");
        call.cx_mut().extensions.insert(more);
        let mut headers = HeaderMap::new();
        modern(&mut headers, &call, "2026-07-28").unwrap();
        assert_eq!(headers[METHOD], method);
        assert_eq!(headers[REVISION], "2026-07-28");
        assert_eq!(headers["Mcp-Param-Region"], "eu");
        assert_eq!(headers.get(NAME).map(|name| name.to_str().unwrap()), name);
    }

    #[test]
    fn the_name_is_the_target() {
        check("tools/call", r#"{"name":"add","arguments":{"name":"x"}}"#, Some("add"));
        check("tools/call", r#"{"name":"wörter"}"#, Some("=?base64?d8O2cnRlcg==?="));
        check("prompts/get", r#"{"name":"p"}"#, Some("p"));
        check("resources/read", r#"{"uri":"file:///a b"}"#, Some("file:///a b"));
        check("tasks/get", r#"{"taskId":"t1"}"#, Some("t1"));
        check("tools/list", r#"{"name":"x"}"#, None);
    }
}
