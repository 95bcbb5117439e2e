//! The headers of one call that repeat values of its body, for intermediaries that route by them (MCP 2026-07-28,
//! standard headers).

use std::borrow::Cow;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use mgp_types::mcp::{Revision, key};
use mgp_types::method::lookup;
use mgp_types::service::{Call, HeaderParams, HeaderTarget, encode_header};

use super::error::Fault;

pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(super) const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

pub(super) fn post_headers() -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    headers
}

/// Returns the revision in the `_meta` of a modern call; `None` for a legacy call.
pub(super) fn modern_revision(call: &Call) -> Option<Cow<'_, str>> {
    let (_, revision) = call.hop().meta.iter().find(|(name, _)| name == key::PROTOCOL_VERSION)?;
    let plain = revision.as_str().strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    match plain.filter(|text| !text.contains(['"', '\\'])) {
        Some(text) => Some(Cow::Borrowed(text)),
        None => revision.get().ok().map(Cow::Owned),
    }
}

/// The values that a modern call repeats in headers: revision, method, target, and the arguments that the tool wants to
/// be repeated.
pub(super) struct StandardHeaders {
    revision: HeaderValue,
    method: HeaderValue,
    name: Option<HeaderValue>,
    params: Vec<(HeaderName, HeaderValue)>,
}

impl StandardHeaders {
    pub(super) fn of(call: &Call, revision: &str) -> Result<Self, Fault> {
        let known =
            Revision::SUPPORTED.iter().map(Revision::as_str).find(|known| *known == revision);
        let target = HeaderTarget::of(call.method(), call.params());
        let mut params = Vec::new();
        for (name, value) in
            call.cx().extensions.get::<HeaderParams>().into_iter().flat_map(HeaderParams::iter)
        {
            let wrong = || Fault::Header(format!("Mcp-Param-{name}"));
            let header = HeaderName::from_bytes(format!("mcp-param-{name}").as_bytes());
            let value = HeaderValue::from_str(value).map_err(|_| wrong())?;
            params.push((header.map_err(|_| wrong())?, value));
        }
        Ok(Self {
            revision: written(known, revision, &REVISION)?,
            method: written(
                lookup(call.method().as_str()).map(|known| known.name),
                call.method().as_str(),
                &METHOD,
            )?,
            name: target.map(|target| written(None, target.as_str(), &NAME)).transpose()?,
            params,
        })
    }

    pub(super) fn insert_headers(&self, headers: &mut HeaderMap) {
        headers.insert(REVISION, self.revision.clone());
        headers.insert(METHOD, self.method.clone());
        if let Some(name) = &self.name {
            headers.insert(NAME, name.clone());
        }
        for (name, value) in &self.params {
            headers.append(name, value.clone());
        }
    }
}

/// Creates a header value; a text that is known at compile time needs no allocation.
fn written(
    known: Option<&'static str>,
    text: &str,
    name: &HeaderName,
) -> Result<HeaderValue, Fault> {
    match known {
        Some(known) => Ok(HeaderValue::from_static(known)),
        None => {
            HeaderValue::from_str(&encode_header(text)).map_err(|_| Fault::Header(name.to_string()))
        }
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::Payload;
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
        StandardHeaders::of(&call, "2026-07-28").unwrap().insert_headers(&mut headers);
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

    #[test]
    fn the_revision_is_decoded_from_json() {
        let named = |json: &str| {
            let cx = Context::new(Peer::none(), Scope::new(ScopeKind::Session), Principal::local());
            let mut call = Call::request(Method::of("tools/list"), Params::none(), cx);
            let revision = Payload::from_trusted(json.to_owned());
            call.hop_mut().meta.push((Cow::Borrowed(key::PROTOCOL_VERSION), revision));
            modern_revision(&call).map(Cow::into_owned)
        };
        assert_eq!(named(r#""2026-07-28""#).as_deref(), Some("2026-07-28"));
        assert_eq!(named(r#" "2026\u002d07-28" "#).as_deref(), Some("2026-07-28"));
        assert_eq!(named("7"), None);
        assert_eq!(named(r#"""#), None);
    }
}
