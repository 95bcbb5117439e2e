//! Describes the reason why JSON cannot be decoded, without terms of Rust.

use crate::clip;

/// The maximum length in bytes of a value of the peer in a reason.
const MAX_VALUE_BYTES: usize = 120;

/// The maximum length in bytes of a reason, which can contain a name or a word of the peer.
const MAX_REASON_BYTES: usize = 1000;

/// The names that Rust and serde use for types in the messages of decoders, each with the usual name of the type in
/// JSON.
const NAMES: [(&str, &str); 14] = [
    ("map", "an object"),
    ("sequence", "an array"),
    ("a sequence", "an array"),
    ("a map", "an object"),
    ("struct ", "an object"),
    ("u64", "an integer of at least 0"),
    ("u32", "an integer of at least 0"),
    ("u16", "an integer of at least 0"),
    ("u8", "an integer of at least 0"),
    ("usize", "an integer of at least 0"),
    ("i64", "an integer"),
    ("i32", "an integer"),
    ("f64", "a number"),
    ("unit", "null"),
];

/// Returns the reason of a decoding error. Line and column are removed, because they refer to a text that the caller
/// does not see.
pub(super) fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(before, _)| before);
    if let Some(name) = text.strip_prefix("missing field ") {
        return format!("the member {name} is missing");
    }
    // Rewrite an invalid value only if it is a negative integer. All other invalid values are too large for their Rust
    // type, and the message then names the limits of that type.
    let negative =
        text.strip_prefix("invalid value: ").filter(|rest| rest.starts_with("integer `-"));
    let mismatch = text.strip_prefix("invalid type: ").or(negative);
    if let Some((found, expected)) = mismatch.and_then(|rest| rest.rsplit_once(", expected ")) {
        let found = clip(of_json(found), MAX_VALUE_BYTES);
        return format!("expected {}, found {found}", of_json(expected));
    }
    clip(text, MAX_REASON_BYTES)
}

fn of_json(name: &str) -> &str {
    let known = NAMES
        .iter()
        .find(|(theirs, _)| name == *theirs || (theirs.ends_with(' ') && name.starts_with(theirs)));
    known.map_or(name, |(_, ours)| ours)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    #[derive(Deserialize, Debug)]
    #[expect(dead_code, reason = "only its decoding is tested")]
    struct Sample {
        name: String,
        #[serde(default)]
        list: Vec<u32>,
        #[serde(default)]
        inner: Option<Box<Self>>,
    }

    #[test]
    fn reasons_are_in_the_terms_of_json() {
        for (text, expected) in [
            ("{}", "the member `name` is missing"),
            (r#"{"name":7}"#, "expected a string, found integer `7`"),
            (r#"{"name":"a","list":{}}"#, "expected an array, found an object"),
            (
                r#"{"name":"a","list":["x"]}"#,
                "expected an integer of at least 0, found string \"x\"",
            ),
            (
                r#"{"name":"a","list":[-1]}"#,
                "expected an integer of at least 0, found integer `-1`",
            ),
            (r#"{"name":"a","inner":true}"#, "expected an object, found boolean `true`"),
        ] {
            let error = serde_json::from_str::<Sample>(text).unwrap_err();
            assert_eq!(super::reason(&error), expected);
        }
        let text = format!(r#"{{"name":"a","list":"{}"}}"#, "x".repeat(100_000));
        let error = serde_json::from_str::<Sample>(&text).unwrap_err();
        assert!(super::reason(&error).len() < 200, "a long value is clipped");
    }
}
