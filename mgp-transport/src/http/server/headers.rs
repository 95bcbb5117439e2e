//! Reads the headers that have a meaning in MCP, in one pass.
//!
//! A request that contains one of these headers twice is refused, because an intermediary could act on a different
//! value than this server. Only `Accept` may occur twice.

use std::ops::RangeInclusive;
use std::sync::{Arc, LazyLock};

use http::header::{HeaderMap, HeaderValue};
use mgp_types::service::HeaderParams;

use super::refusal::Refusal;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RequestHeaders<'a> {
    pub(super) host: Option<&'a str>,
    pub(super) origin: Option<&'a str>,
    pub(super) content_type: Option<&'a str>,
    pub(super) content_encoding: Option<&'a str>,
    pub(super) version: Option<&'a str>,
    pub(super) method: Option<&'a str>,
    pub(super) name: Option<&'a str>,
    pub(super) session: Option<&'a str>,
    pub(super) last_event: Option<&'a str>,
    pub(super) idempotency_key: Option<&'a str>,
    /// The token of a session with scopes (extension `scopes`).
    pub(super) session_token: Option<&'a str>,
    authorization: Option<&'a str>,
    /// The content types that the client accepts; without the header, both JSON and an event stream are accepted.
    accept: Option<Accept>,
}

#[derive(Clone, Copy, Debug)]
struct Accept {
    json: bool,
    events: bool,
}

/// A header map is reused for the connection's next request if its capacity is in this range. Reusing a smaller map
/// costs more than creating a map, and a larger map would occupy memory for as long as the connection exists.
const REUSED_CAPACITY: RangeInclusive<usize> = 7..=32;

/// The prefix of the headers that repeat arguments of a tool call.
const PARAM_PREFIX: &str = "mcp-param-";

impl<'a> RequestHeaders<'a> {
    pub(super) fn read(headers: &'a HeaderMap) -> Result<Self, Refusal> {
        let mut found = Self::default();
        for (name, value) in headers {
            let (field, shown) = match name.as_str() {
                "host" => (&mut found.host, "Host"),
                "origin" => (&mut found.origin, "Origin"),
                "content-type" => (&mut found.content_type, "Content-Type"),
                "content-encoding" => (&mut found.content_encoding, "Content-Encoding"),
                "mcp-protocol-version" => (&mut found.version, "MCP-Protocol-Version"),
                "mcp-method" => (&mut found.method, "Mcp-Method"),
                "mcp-name" => (&mut found.name, "Mcp-Name"),
                "mcp-session-id" => (&mut found.session, "Mcp-Session-Id"),
                "x-idempotency-key" => (&mut found.idempotency_key, "X-Idempotency-Key"),
                "x-mcp-session-token" => (&mut found.session_token, "X-MCP-Session-Token"),
                "last-event-id" => (&mut found.last_event, "Last-Event-ID"),
                "authorization" => (&mut found.authorization, "Authorization"),
                "accept" => {
                    found.accept = Some(Accept::read(found.accept, value));
                    continue;
                }
                _ => continue,
            };
            if field.replace(text(value)).is_some() {
                return Err(Refusal::Duplicate(shown));
            }
        }
        // Some clients send the header without a value before they have a session, so an empty value counts as absent.
        found.session = found.session.filter(|id| !id.is_empty());
        Ok(found)
    }

    /// Returns whether the client accepts an event stream.
    pub(super) fn takes_events(&self) -> bool {
        self.accept.is_none_or(|accept| accept.events)
    }

    pub(super) fn takes_json(&self) -> bool {
        self.accept.is_none_or(|accept| accept.json)
    }
}

impl Accept {
    fn read(before: Option<Self>, value: &HeaderValue) -> Self {
        // Nearly every client sends exactly this text, so it is compared first.
        if value.as_bytes() == b"application/json, text/event-stream" {
            return Self { json: true, events: true };
        }
        let mut read = before.unwrap_or(Self { json: false, events: false });
        for range in text(value).split(',') {
            let mut parts = range.split(';');
            let range = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
            if parts.any(excludes_range) {
                continue;
            }
            read.json |= matches!(&*range, "*/*" | "application/*" | "application/json");
            read.events |= matches!(&*range, "*/*" | "text/*" | "text/event-stream");
        }
        read
    }
}

/// Returns whether a parameter of a range in `Accept` is the weight 0, which excludes the range (RFC 9110 §12.4.2).
fn excludes_range(parameter: &str) -> bool {
    let Some((name, value)) = parameter.split_once('=') else { return false };
    name.trim().eq_ignore_ascii_case("q")
        && value.trim().parse::<f32>().is_ok_and(|weight| weight == 0.0)
}

/// Returns the arguments that headers repeat; most calls have none, and share one empty value.
pub(super) fn params(headers: &HeaderMap) -> Arc<HeaderParams> {
    static NONE: LazyLock<Arc<HeaderParams>> = LazyLock::new(Arc::default);
    let mut params = HeaderParams::new();
    for (name, value) in headers {
        if let Some(name) = name.as_str().strip_prefix(PARAM_PREFIX) {
            params.push(name, text(value));
        }
    }
    if params.is_empty() { Arc::clone(&NONE) } else { Arc::new(params) }
}

/// The placeholder for a header value that is not text; no valid value equals it.
pub(super) const NOT_TEXT: &str = "\u{fffd}";

fn text(value: &HeaderValue) -> &str {
    value.to_str().unwrap_or(NOT_TEXT)
}

/// Moves the headers of a response into the header map of its request. A connection uses the map of each response again
/// for its next request.
pub(super) fn reuse_map(mut of_request: HeaderMap, of_response: &mut HeaderMap) {
    if REUSED_CAPACITY.contains(&of_request.capacity()) {
        of_request.clear();
        of_request.extend(std::mem::take(of_response));
        *of_response = of_request;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[track_caller]
    fn check_accept(values: &[&'static str], events: bool, json: bool) {
        let pairs: Vec<_> = values.iter().map(|value| ("accept", *value)).collect();
        let headers = headers(&pairs);
        let read = RequestHeaders::read(&headers).unwrap();
        assert_eq!((read.takes_events(), read.takes_json()), (events, json), "{values:?}");
    }

    #[test]
    fn accepted_types_are_read_from_all_values() {
        check_accept(&[], true, true);
        check_accept(&["application/json, text/event-stream"], true, true);
        check_accept(&["text/event-stream;q=0.5,APPLICATION/JSON"], true, true);
        check_accept(&["application/json", "text/event-stream"], true, true);
        check_accept(&["*/*"], true, true);
        check_accept(&["text/*"], true, false);
        check_accept(&["text/event-stream"], true, false);
        check_accept(&["application/json"], false, true);
        check_accept(&["text/html"], false, false);
        check_accept(&["application/json, text/event-stream;q=0"], false, true);
        check_accept(&["application/json;charset=utf-8; Q=0.000 ,text/event-stream"], true, false);
        check_accept(&["text/event-stream;q=0.001", "application/json;q=1"], true, true);
        check_accept(&[""], false, false);
    }

    #[test]
    fn a_session_header_without_a_value_is_absent() {
        for (value, read) in [("", None), ("a", Some("a"))] {
            let headers = headers(&[("mcp-session-id", value)]);
            assert_eq!(RequestHeaders::read(&headers).unwrap().session, read);
        }
    }

    #[test]
    fn no_known_header_may_occur_twice() {
        for name in [
            "host",
            "origin",
            "content-type",
            "mcp-session-id",
            "authorization",
            "mcp-name",
            "x-mcp-session-token",
        ] {
            let headers = headers(&[(name, "a"), (name, "a")]);
            assert!(matches!(RequestHeaders::read(&headers), Err(Refusal::Duplicate(_))), "{name}");
        }
        assert!(RequestHeaders::read(&headers(&[("x-other", "a"), ("x-other", "b")])).is_ok());
    }
}
