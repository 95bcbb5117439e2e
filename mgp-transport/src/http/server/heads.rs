//! The headers this protocol gives a meaning, found in one pass; none of them may stand twice.
//!
//! Of two values, whoever stands before us may have looked at the other.
//!
//! Applies to: inbound.

use std::sync::{Arc, LazyLock};

use http::header::{HeaderMap, HeaderValue};
use mgp_types::service::HeaderParams;

use super::refusal::Refusal;

/// What the headers of a request say.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Heads<'a> {
    pub(super) host: Option<&'a str>,
    pub(super) origin: Option<&'a str>,
    pub(super) content_type: Option<&'a str>,
    pub(super) content_encoding: Option<&'a str>,
    pub(super) version: Option<&'a str>,
    pub(super) method: Option<&'a str>,
    pub(super) name: Option<&'a str>,
    pub(super) session: Option<&'a str>,
    pub(super) last_event: Option<&'a str>,
    authorization: Option<&'a str>,
    /// Whether an answer may be JSON, and whether it may be a stream; who says nothing takes both.
    accept: Option<Accept>,
}

#[derive(Clone, Copy, Debug)]
struct Accept {
    json: bool,
    events: bool,
}

/// Arguments of a tool call.
const PARAM: &str = "mcp-param-";

impl<'a> Heads<'a> {
    /// Reads them.
    pub(super) fn read(headers: &'a HeaderMap) -> Result<Self, Refusal> {
        let mut heads = Self::default();
        for (name, value) in headers {
            let (place, shown) = match name.as_str() {
                "host" => (&mut heads.host, "Host"),
                "origin" => (&mut heads.origin, "Origin"),
                "content-type" => (&mut heads.content_type, "Content-Type"),
                "content-encoding" => (&mut heads.content_encoding, "Content-Encoding"),
                "mcp-protocol-version" => (&mut heads.version, "MCP-Protocol-Version"),
                "mcp-method" => (&mut heads.method, "Mcp-Method"),
                "mcp-name" => (&mut heads.name, "Mcp-Name"),
                "mcp-session-id" => (&mut heads.session, "Mcp-Session-Id"),
                "last-event-id" => (&mut heads.last_event, "Last-Event-ID"),
                "authorization" => (&mut heads.authorization, "Authorization"),
                "accept" => {
                    heads.accept = Some(Accept::read(heads.accept, value));
                    continue;
                }
                _ => continue,
            };
            if place.replace(text(value)).is_some() {
                return Err(Refusal::Twice(shown));
            }
        }
        Ok(heads)
    }

    /// Whether an answer may be a stream.
    pub(super) fn takes_events(&self) -> bool {
        self.accept.is_none_or(|accept| accept.events)
    }

    /// Whether an answer may be JSON or a stream, as it turns out.
    pub(super) fn takes_both(&self) -> bool {
        self.accept.is_none_or(|accept| accept.events && accept.json)
    }
}

impl Accept {
    fn read(before: Option<Self>, value: &HeaderValue) -> Self {
        // Nearly every client says so in the same words.
        if value.as_bytes() == b"application/json, text/event-stream" {
            return Self { json: true, events: true };
        }
        let mut read = before.unwrap_or(Self { json: false, events: false });
        for range in text(value).split(',') {
            let range = range.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            read.json |= matches!(&*range, "*/*" | "application/*" | "application/json");
            read.events |= matches!(&*range, "*/*" | "text/*" | "text/event-stream");
        }
        read
    }
}

/// The arguments that stand in headers; most calls have none, and share that.
pub(super) fn params(headers: &HeaderMap) -> Arc<HeaderParams> {
    static NONE: LazyLock<Arc<HeaderParams>> = LazyLock::new(Arc::default);
    let mut params = HeaderParams::new();
    for (name, value) in headers {
        if let Some(name) = name.as_str().strip_prefix(PARAM) {
            params.push(name, text(value));
        }
    }
    if params.is_empty() { Arc::clone(&NONE) } else { Arc::new(params) }
}

/// What stands for the value of a header that is no text; it equals nothing we know.
pub(super) const NO_TEXT: &str = "\u{fffd}";

fn text(value: &HeaderValue) -> &str {
    value.to_str().unwrap_or(NO_TEXT)
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
    fn check_accept(values: &[&'static str], events: bool, both: bool) {
        let pairs: Vec<_> = values.iter().map(|value| ("accept", *value)).collect();
        let headers = headers(&pairs);
        let heads = Heads::read(&headers).unwrap();
        assert_eq!((heads.takes_events(), heads.takes_both()), (events, both), "{values:?}");
    }

    #[test]
    fn what_is_accepted() {
        check_accept(&[], true, true);
        check_accept(&["application/json, text/event-stream"], true, true);
        check_accept(&["text/event-stream;q=0.5,APPLICATION/JSON"], true, true);
        check_accept(&["application/json", "text/event-stream"], true, true);
        check_accept(&["*/*"], true, true);
        check_accept(&["text/*"], true, false);
        check_accept(&["text/event-stream"], true, false);
        check_accept(&["application/json"], false, false);
        check_accept(&["text/html"], false, false);
        check_accept(&[""], false, false);
    }

    #[test]
    fn none_may_stand_twice() {
        for name in
            ["host", "origin", "content-type", "mcp-session-id", "authorization", "mcp-name"]
        {
            let headers = headers(&[(name, "a"), (name, "a")]);
            assert!(matches!(Heads::read(&headers), Err(Refusal::Twice(_))), "{name}");
        }
        assert!(Heads::read(&headers(&[("x-other", "a"), ("x-other", "b")])).is_ok());
    }
}
