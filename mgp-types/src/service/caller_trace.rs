//! The trace context that a caller sends with a call in `_meta` (W3C Trace Context and Baggage).

use super::params::{MetaKey, Params};
use crate::wire::Payload;

/// The maximum length of `tracestate` and of `baggage`, in bytes; a longer value is not forwarded.
const MAX_STATE_BYTES: usize = 8192;

/// The trace context that the caller sent with a call (W3C Trace Context), stored in the extensions of the call's
/// context.
///
/// A process without a span of its own passes the trace context on unchanged, so that the spans of the next server are
/// children of the caller's span.
#[derive(Clone, Debug)]
pub struct CallerTrace {
    /// The value of `traceparent`, `"00-TRACE-SPAN-FLAGS"`, as JSON and in lower case.
    parent: Payload,
    state: Option<Payload>,
    baggage: Option<Payload>,
}

impl CallerTrace {
    /// Reads the trace context from `_meta` of the received params; returns `None` if `_meta` contains no valid trace
    /// context.
    #[must_use]
    pub fn of(params: &Params) -> Option<Self> {
        let parent = valid_parent(params.meta_member(MetaKey::Traceparent)?)?;
        let text = |member| {
            let json = params.meta_member(member)?;
            let is_text = json.starts_with('"') && json.len() <= MAX_STATE_BYTES;
            // Copy the text, so that the context does not keep the received text of the call, which may be large, in
            // memory.
            is_text.then(|| Payload::from_trusted(json.to_owned()))
        };
        let (state, baggage) = (text(MetaKey::Tracestate), text(MetaKey::Baggage));
        Some(Self { parent, state, baggage })
    }

    /// Returns the value of `traceparent`, as JSON.
    #[must_use]
    pub fn parent(&self) -> &Payload {
        &self.parent
    }

    /// Returns the id of the trace: 32 hexadecimal digits.
    #[must_use]
    pub fn trace(&self) -> &str {
        &self.parent.as_str()[4..36]
    }

    /// Returns the id of the caller's span: 16 hexadecimal digits.
    #[must_use]
    pub fn span(&self) -> &str {
        &self.parent.as_str()[37..53]
    }

    /// Returns the flags, two hexadecimal digits, e.g. `01` if the caller records the trace.
    #[must_use]
    pub fn flags(&self) -> &str {
        &self.parent.as_str()[54..56]
    }

    /// Returns the value of `tracestate`, as JSON, if the caller sent one.
    #[must_use]
    pub fn state(&self) -> Option<&Payload> {
        self.state.as_ref()
    }

    /// Returns the value of `baggage`, as JSON, if the caller sent one.
    #[must_use]
    pub fn baggage(&self) -> Option<&Payload> {
        self.baggage.as_ref()
    }
}

/// Returns a `traceparent` in the form of version 00; `None` if it is not valid. A later version begins with the
/// members of version 00; if it has more members, they are left out.
fn valid_parent(json: &str) -> Option<Payload> {
    let text = json.strip_prefix('"')?.strip_suffix('"')?;
    let mut parts = text.split('-');
    let (version, trace) = (parts.next()?, parts.next()?);
    let (span, flags) = (parts.next()?, parts.next()?);
    let is_known = version != "00" || parts.next().is_none();
    let is_valid = is_hex(version, 2)
        && !version.eq_ignore_ascii_case("ff")
        && is_known
        && is_id(trace, 32)
        && is_id(span, 16)
        && is_hex(flags, 2);
    let is_plain = version == "00" && !text.bytes().any(|byte| byte.is_ascii_uppercase());
    let plain = || {
        if is_plain {
            return json.to_owned();
        }
        format!("\"00-{trace}-{span}-{flags}\"").to_ascii_lowercase()
    };
    is_valid.then(|| Payload::from_trusted(plain()))
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns whether a text is the id of a trace or span. An id that consists of zeros is not valid.
fn is_id(text: &str, digits: usize) -> bool {
    is_hex(text, digits) && text.bytes().any(|byte| byte != b'0')
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    fn read(parent: &str, more: &str) -> Option<CallerTrace> {
        let params = format!(r#"{{"name":"log","_meta":{{"traceparent":"{parent}"{more}}}}}"#);
        CallerTrace::of(&Params::split("tools/call", params.into()).unwrap())
    }

    #[test]
    fn a_valid_trace_context_is_read_with_its_state() {
        let parent = format!("00-{TRACE}-00f067aa0ba902b7-00");
        let read = |parent: &str| read(parent, r#","tracestate":"v=1","baggage":"u=7""#).unwrap();
        for sent in [parent.clone(), parent.to_ascii_uppercase(), format!("cc{}-x", &parent[2..])] {
            let trace = read(&sent);
            assert_eq!(trace.parent().as_str(), format!("\"{parent}\""), "{sent}");
            assert_eq!((trace.trace(), trace.span()), (TRACE, "00f067aa0ba902b7"));
            assert_eq!(trace.flags(), "00");
            assert_eq!(trace.state().unwrap().as_str(), r#""v=1""#);
            assert_eq!(trace.baggage().unwrap().as_str(), r#""u=7""#);
        }
    }

    #[test]
    fn an_invalid_trace_context_is_ignored() {
        let zeros = "0".repeat(32);
        for parent in [
            String::new(),
            TRACE.to_owned(),
            format!("00-{TRACE}-00f067aa0ba902b7"),
            format!("00-{TRACE}-00f067aa0ba902b7-01-more"),
            format!("ff-{TRACE}-00f067aa0ba902b7-01"),
            format!("00-{zeros}-00f067aa0ba902b7-01"),
            format!("00-{TRACE}-0000000000000000-01"),
            format!("00-{TRACE}-00f067aa0ba902bx-01"),
        ] {
            assert!(read(&parent, "").is_none(), "{parent}");
        }
    }

    #[test]
    fn a_state_that_is_too_long_or_not_a_text_is_left_out() {
        let parent = format!("00-{TRACE}-00f067aa0ba902b7-01");
        let long = "x".repeat(MAX_STATE_BYTES);
        let trace = read(&parent, &format!(r#","tracestate":7,"baggage":"{long}""#)).unwrap();
        assert!(trace.state().is_none() && trace.baggage().is_none());
    }
}
