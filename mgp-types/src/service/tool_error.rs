//! The flag of a result (`isError`), by which a tool reports that it failed.

use std::sync::LazyLock;

use memchr::memchr;
use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Body;

/// Returns whether the result of a tool has `isError: true`. The values `1` and `"true"`, which some servers write
/// instead, count as `true` too. Only results whose text might contain such a member are parsed.
#[must_use]
pub fn is_tool_error(body: &Body) -> bool {
    #[derive(Deserialize)]
    struct ErrorFlag<'a> {
        #[serde(rename = "isError", default, borrow)]
        is_error: Option<&'a RawValue>,
    }
    // Search the text first, because a search is faster than parsing.
    static NAME: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(r#""isError""#));
    let raw = body.as_raw().as_str();
    // Results of our own tools have this ending, so they need no parsing. In valid JSON, it is the last member of the
    // outermost object. If the object contains the name twice, the meaning of the object is undefined anyway.
    if raw.ends_with(r#","isError":false}"#) {
        return false;
    }
    let mut values = NAME.find_iter(raw.as_bytes()).map(|at| &raw[at + NAME.needle().len()..]);
    let may_be_true = values.any(|rest| {
        rest.trim_start_matches([':', ' ', '\t', '\n', '\r']).starts_with(['t', '1', '"'])
    });
    (may_be_true || memchr(b'\\', raw.as_bytes()).is_some() && raw.contains("\\u"))
        // Parse the text, because the search alone is not enough: the member might be nested, e.g. in structured
        // content, and a text with escapes might not have the member at all.
        && serde_json::from_str(raw).is_ok_and(|ErrorFlag { is_error }| {
            is_error.is_some_and(|flag| matches!(flag.get(), "true" | "1" | "\"true\""))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Payload;

    #[track_caller]
    fn check(body: &'static str, expected: bool) {
        assert_eq!(is_tool_error(&Body::new(Payload::from_trusted(body))), expected, "{body}");
    }

    #[test]
    fn errors_of_tools_are_seen() {
        check(r#"{"content":[],"isError":true}"#, true);
        check(r#"{"isError": true, "content": []}"#, true);
        check("{\"isError\" :\ttrue}", true);
        check(r#"{"\u0069sError":true}"#, true);
        check(r#"{"content":[],"isError":1}"#, true);
        check(r#"{"content":[],"isError": "true"}"#, true);
        for no in [r#"{"isError":null}"#, r#"{"isError":0}"#, r#"{"isError":"no"}"#] {
            check(no, false);
        }
        check(r#"{"content":[]}"#, false);
        check(r#"{"content":[],"isError":false}"#, false);
        check(r#"{"structuredContent":{"isError":true},"isError":false}"#, false);
        check(r#"{"content":[{"type":"text","text":"\"isError\":true"}]}"#, false);
        check("7", false);
        check(r#"{"isError":true,"isError":false}"#, false);
        check(r#"{"isError":true,"a\",\"isError":false}"#, true);
        check(r#"{"isError":true,"structuredContent":{"a":1,"isError":false}}"#, true);
    }
}
