//! Canonical JSON and its hash: JSON values with the same meaning get the same text. Pins, confirmations and approvals
//! compare these hashes (MGP §4, §6).
//!
//! Members are sorted by their UTF-16 code units, whitespace is removed, and strings have minimal escapes (RFC 8785).
//! Numbers stay as they are written: `1` and `1.0` differ. RFC 8785 reads numbers as doubles, so two large integers
//! that differ only in the last digit would become equal. A confirmation of exact arguments must not treat them as
//! equal.

use std::borrow::Cow;
use std::collections::btree_map::{BTreeMap, Entry};
use std::fmt;

use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::hex::to_hex;
use crate::wire::RpcError;

/// The maximum depth of nesting in a JSON text that [`canonical`] accepts.
const MAX_DEPTH: usize = 128;

/// Converts a JSON text to its canonical form.
///
/// ```
/// assert_eq!(mgp_types::canonical(r#"{ "b": 1.0, "a": "\u0041" }"#).unwrap(), r#"{"a":"A","b":1.0}"#);
/// ```
///
/// # Errors
/// Returns −32700 (parse error) if the text is not JSON or nested deeper than 128 levels; −32600 (invalid request) if a
/// member name occurs twice in an object.
pub fn canonical(json: &str) -> Result<String, RpcError> {
    let raw: &RawValue = serde_json::from_str(json).map_err(RpcError::parse)?;
    let mut writer = Writer::new(raw.get())?;
    writer.value(Place { at: 0, container: 0 })?;
    Ok(writer.out)
}

/// The number of nested levels that [`is_canonical`] examines; the first is the whole text. The limit is small, because
/// the levels are kept in an array on the stack.
const MAX_SCAN_DEPTH: usize = 16;

/// Returns whether a valid JSON text is certainly in canonical form. Examines the text in one pass, without parsing it.
///
/// A result of `false` does not prove the opposite. Rare forms are not examined and also return `false`: non-ASCII or
/// escaped names, an empty name, `\u` and `\/` escapes, and more than 15 levels of nesting.
///
/// ```
/// assert!(mgp_types::is_canonical(r#"{"a":[1,true],"b":"x\n"}"#));
/// assert!(!mgp_types::is_canonical(r#"{"b":1,"a":2}"#));
/// ```
#[must_use]
pub fn is_canonical(json: &str) -> bool {
    scan(json.as_bytes()).is_some()
}

/// A level of nesting during the scan: an array, or an object with the name of its previous member.
#[derive(Clone, Copy)]
enum Level<'a> {
    Array,
    Object(&'a [u8]),
}

fn scan(bytes: &[u8]) -> Option<()> {
    // The first level is not in the text: it counts as an array that contains the outermost value of the text.
    let mut levels = [Level::Array; MAX_SCAN_DEPTH];
    let (mut depth, mut at, mut in_name) = (0, 0, false);
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => {
                let end = string_end(bytes, at, in_name)?;
                if let (true, Level::Object(before)) = (in_name, levels[depth]) {
                    let name = &bytes[at..end];
                    // The names in an object must increase strictly. The first name is compared with the empty text, so
                    // `false` is also returned for an object that contains an empty name.
                    if before >= name {
                        return None;
                    }
                    levels[depth] = Level::Object(name);
                }
                in_name = false;
                at = end + 1;
            }
            b'{' | b'[' => {
                depth += 1;
                in_name = byte == b'{';
                *levels.get_mut(depth)? = if in_name { Level::Object(&[]) } else { Level::Array };
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                in_name = false;
            }
            b',' => in_name = matches!(levels[depth], Level::Object(_)),
            b' ' | b'\n' | b'\r' | b'\t' => return None,
            _ => {}
        }
    }
    Some(())
}

/// Returns the index of the quote that closes a string; `None` if the string might not be in canonical form.
fn string_end(bytes: &[u8], start: usize, is_name: bool) -> Option<usize> {
    let mut at = start;
    loop {
        at += quote_or_escape(bytes.get(at..)?)?;
        match (bytes[at], is_name) {
            (b'"', false) => return Some(at),
            // RFC 8785 orders names by their UTF-16 code units. For ASCII names, this is also the order of their bytes;
            // for other names, the two orders may differ, so `None` is returned.
            (b'"', true) => return bytes[start..at].is_ascii().then_some(at),
            (_, true) => return None,
            (_, false) => match bytes.get(at + 1)? {
                b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't' => at += 2,
                _ => return None,
            },
        }
    }
}

/// Returns the position of the first `"` or `\`. Checks eight bytes at a time, because the arguments of a call can be
/// long.
fn quote_or_escape(bytes: &[u8]) -> Option<usize> {
    const fn each(byte: u8) -> u64 {
        u64::from_ne_bytes([byte; 8])
    }
    // For each zero byte of the word, sets the highest bit of that byte in the result. Bits above the first zero byte
    // may be wrong, which has no effect, because only the lowest set bit is used.
    let zero = |word: u64| word.wrapping_sub(each(1)) & !word & each(0x80);
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let found = zero(word ^ each(b'"')) | zero(word ^ each(b'\\'));
        if found != 0 {
            return Some(index * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    let found = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
    Some(words.len() * 8 + found)
}

/// Returns the SHA-256 hash of the canonical form of a JSON text.
///
/// # Errors
/// Returns the errors that [`canonical`] returns.
pub fn canonical_hash(json: &str) -> Result<Sha256Hash, RpcError> {
    canonical(json).map(|text| Sha256Hash::digest(text.as_bytes()))
}

/// The SHA-256 digest of some bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sha256Hash([u8; 32]);

impl Sha256Hash {
    /// Computes the SHA-256 digest of some bytes.
    #[must_use]
    pub fn digest(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Returns the digest as bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Sha256Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_hex(&self.0))
    }
}

impl fmt::Debug for Sha256Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The name of a member in an object; names are ordered by their UTF-16 code units, as RFC 8785 requires.
#[derive(PartialEq, Eq)]
struct Name<'a>(Cow<'a, str>);

impl Ord for Name<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.encode_utf16().cmp(other.0.encode_utf16())
    }
}

impl PartialOrd for Name<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The writer of the canonical form of a valid JSON text. It indexes all objects and arrays of the text, so that it can
/// skip any of them without scanning it again.
struct Writer<'a> {
    json: &'a str,
    /// The objects and arrays of `json`, in the order in which they begin.
    containers: Vec<Container>,
    out: String,
}

/// An object or array in the JSON text.
#[derive(Clone, Copy)]
struct Container {
    /// The position after the closing bracket of the object or array.
    end: usize,
    /// The index, in `Writer::containers`, of the first container that begins after `end`.
    next: usize,
}

/// A position in the JSON text, with the index in `Writer::containers` of the first object or array that begins at or
/// after that position.
#[derive(Clone, Copy)]
struct Place {
    at: usize,
    container: usize,
}

impl<'a> Writer<'a> {
    fn new(json: &'a str) -> Result<Self, RpcError> {
        let mut containers: Vec<Container> = Vec::new();
        let mut open = Vec::new();
        let (bytes, mut at) = (json.as_bytes(), 0);
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'"' => {
                    at = end_of_string(bytes, at);
                    continue;
                }
                b'{' | b'[' if open.len() == MAX_DEPTH => {
                    let message = "parse error: nested too deep";
                    return Err(RpcError::new(crate::ErrorCode::PARSE_ERROR, message));
                }
                b'{' | b'[' => {
                    open.push(containers.len());
                    containers.push(Container { end: 0, next: 0 });
                }
                b'}' | b']' => {
                    let next = containers.len();
                    if let Some(own) = open.pop() {
                        containers[own] = Container { end: at + 1, next };
                    }
                }
                _ => {}
            }
            at += 1;
        }
        Ok(Self { json, containers, out: String::with_capacity(json.len()) })
    }

    /// Writes the JSON value that begins at a position in the text.
    fn value(&mut self, place: Place) -> Result<(), RpcError> {
        let inner = Place { at: place.at + 1, container: place.container + 1 };
        match self.json.as_bytes()[place.at] {
            b'{' => self.object(inner),
            b'[' => self.array(inner),
            _ => self.scalar(place),
        }
    }

    fn scalar(&mut self, place: Place) -> Result<(), RpcError> {
        let text = &self.json[place.at..self.behind(place).at];
        // Numbers, literals, and strings without escapes are already canonical. Only strings with escapes are decoded
        // and written in canonical form.
        if text.starts_with('"') && text.contains('\\') {
            let plain: String = serde_json::from_str(text).map_err(RpcError::parse)?;
            return self.string(&plain);
        }
        self.out.push_str(text);
        Ok(())
    }

    fn string(&mut self, text: &str) -> Result<(), RpcError> {
        self.out.push_str(&serde_json::to_string(text).map_err(RpcError::parse)?);
        Ok(())
    }

    fn array(&mut self, inner: Place) -> Result<(), RpcError> {
        let mut before = '[';
        let mut next = self.find(inner);
        while let Some(item) = next {
            self.out.push(before);
            self.value(item)?;
            before = ',';
            next = self.find(self.behind(item));
        }
        self.out.push_str(if before == '[' { "[]" } else { "]" });
        Ok(())
    }

    fn object(&mut self, inner: Place) -> Result<(), RpcError> {
        let mut members = BTreeMap::new();
        let mut next = self.find(inner);
        while let Some(name) = next {
            let behind = self.behind(name);
            let text = &self.json[name.at..behind.at];
            let Some(value) = self.find(behind) else { break };
            match members.entry(Name(decoded(text)?)) {
                Entry::Vacant(entry) => _ = entry.insert(value),
                Entry::Occupied(entry) => {
                    let name = crate::clip(&entry.key().0, 120);
                    let message = format!("the member `{name}` is repeated");
                    return Err(RpcError::invalid_request(message));
                }
            }
            next = self.find(self.behind(value));
        }
        let mut before = '{';
        for (Name(name), value) in &members {
            self.out.push(before);
            self.string(name)?;
            self.out.push(':');
            self.value(*value)?;
            before = ',';
        }
        self.out.push_str(if before == '{' { "{}" } else { "}" });
        Ok(())
    }

    /// Skips white space, commas and colons, and returns the position of the next value or member name; `None` if a
    /// closing bracket follows.
    fn find(&self, mut place: Place) -> Option<Place> {
        loop {
            match self.json.as_bytes().get(place.at)? {
                b' ' | b'\n' | b'\r' | b'\t' | b',' | b':' => place.at += 1,
                b'}' | b']' => return None,
                _ => return Some(place),
            }
        }
    }

    /// Returns the position after the end of the value that begins at `place`. For an object or array, the index of
    /// containers has this position.
    fn behind(&self, place: Place) -> Place {
        let bytes = self.json.as_bytes();
        match bytes[place.at] {
            b'{' | b'[' => {
                let Container { end, next } = self.containers[place.container];
                Place { at: end, container: next }
            }
            b'"' => Place { at: end_of_string(bytes, place.at), ..place },
            _ => {
                let is_end =
                    |byte: &u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t' | b',' | b'}' | b']');
                let rest = &bytes[place.at..];
                let length = rest.iter().position(is_end).unwrap_or(rest.len());
                Place { at: place.at + length, ..place }
            }
        }
    }
}

/// Returns the position after the closing quote of a string in valid JSON.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(found) = bytes.get(at..).and_then(quote_or_escape) {
        at += found;
        if bytes[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    bytes.len()
}

/// Decodes a JSON string, which is given with its quotes.
fn decoded(text: &str) -> Result<Cow<'_, str>, RpcError> {
    match text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(plain) if !plain.contains('\\') => Ok(Cow::Borrowed(plain)),
        _ => serde_json::from_str(text).map(Cow::Owned).map_err(RpcError::parse),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, expected: &str) {
        assert_eq!(canonical(json).unwrap(), expected);
    }

    #[test]
    fn one_meaning_has_one_text() {
        check(" [ 1 , true , null ] ", "[1,true,null]");
        check(r#"{"\u0061":1,"B":{},"c":[]}"#, r#"{"B":{},"a":1,"c":[]}"#);
        check(r#""\/\u00e9\n""#, "\"/é\\n\"");
        // A character above U+FFFF is encoded as two surrogates, and a name is sorted by the first surrogate. Here this
        // is U+D83D, so the name comes before U+FB33.
        check(r#"{"\ufb33":1,"\ud83d\ude02":2}"#, "{\"😂\":2,\"\u{fb33}\":1}");
    }

    #[test]
    fn numbers_are_not_rounded_together() {
        assert_ne!(
            canonical_hash("9007199254740993000000000000000001").unwrap(),
            canonical_hash("9007199254740993000000000000000002").unwrap()
        );
    }

    #[test]
    fn doubles_and_depth_are_refused() {
        assert!(canonical(r#"{"a":1,"\u0061":2}"#).is_err());
        assert!(canonical(&"[".repeat(10_000)).is_err());
        assert!(canonical(&format!("{}{}", "[".repeat(200), "]".repeat(200))).is_err());
    }

    /// Regression test: 4 MiB of arguments that are nested in 100 arrays took a hundred times as long as the same
    /// arguments in one array.
    #[test]
    fn nesting_does_not_multiply_the_cost_of_canonical_text() {
        let items = vec!["[1]"; 1024 * 1024].join(",");
        let time = |depth: usize| {
            let text = format!("{}{items}{}", "[".repeat(depth), "]".repeat(depth));
            let once = || {
                let start = tokio::time::Instant::now();
                assert_eq!(canonical(&text).unwrap(), text);
                start.elapsed()
            };
            (0..3).map(|_| once()).min().unwrap()
        };
        let (flat, deep) = (time(1), time(100));
        assert!(deep < flat * 5, "{flat:?} flat, {deep:?} at depth 100");
    }

    /// A recursive, earlier implementation of `canonical`; a test compares the results of both.
    fn by_levels(json: &str) -> Option<String> {
        fn write(value: &serde_json::Value) -> String {
            match value {
                serde_json::Value::Array(items) => {
                    format!("[{}]", items.iter().map(write).collect::<Vec<_>>().join(","))
                }
                serde_json::Value::Object(members) => {
                    let mut names: Vec<_> = members.keys().collect();
                    names.sort_by(|one, other| one.encode_utf16().cmp(other.encode_utf16()));
                    let member = |name: &&String| {
                        format!("{}:{}", serde_json::json!(name), write(&members[*name]))
                    };
                    format!("{{{}}}", names.iter().map(member).collect::<Vec<_>>().join(","))
                }
                other => other.to_string(),
            }
        }
        Some(write(&serde_json::from_str(json).ok()?))
    }

    #[test]
    fn canonical_text_is_recognised() {
        for text in [
            "7",
            "{}",
            "[]",
            r#"{"a":1,"b":{"a":"x","z":[{},{"a":2}]},"c":"\n\"é"}"#,
            r#"[{"b":1},{"a":1}]"#,
            r#"["a long text of more than eight bytes","\"\"","éééééééééééééé!#[]","\\"]"#,
        ] {
            assert!(is_canonical(text), "{text}");
            assert_eq!(canonical(text).unwrap(), text);
        }
        for text in [
            r#"{"b":1,"a":2}"#,
            r#"{"a":1,"a":2}"#,
            r#"{"a": 1}"#,
            r#"{"a":"\u0041"}"#,
            r#"{"a":"\/"}"#,
            r#"{"\u0061":1}"#,
            r#"{"a":{"z":1},"b":{"c":1,"b":1}}"#,
            "}",
            "\"",
            r#"{"é":1}"#,
            r#"{"":1}"#,
            &"[".repeat(99),
        ] {
            assert!(!is_canonical(text), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn other_text_is_never_taken_for_canonical(
            text in r#"[{]("[ab\\\\nu0é]{0,2}":("[x\\\\n/é]{0,3}"|[0-9.]{1,2}|[{}]|\[[{}",ab:1 ]{0,9}\]),? ?){0,4}[}]"#,
        ) {
            if let Ok(once) = canonical(&text) && is_canonical(&text) {
                proptest::prop_assert_eq!(once, text);
            }
        }

        #[test]
        fn one_pass_writes_what_level_by_level_would(
            parts in proptest::collection::vec(
                r#"[{]( "[a-c]{1,2}é?" : ([0-9]|"[x\\\\"é]?"|[{]"q":[12],"b": \[\]}|\[ 1 ,[{]}, [{]"z":null}\]) )?}|true|"\\u00e9"| [0-9]{1,3} "#, 0..6),
        ) {
            let text = format!("[{}]", parts.join(","));
            if let Ok(once) = canonical(&text) {
                proptest::prop_assert_eq!(Some(once), by_levels(&text));
            }
        }

        #[test]
        fn canonical_text_is_its_own_canonical_text(text in ".{0,80}") {
            if let Ok(once) = canonical(&text) {
                proptest::prop_assert_eq!(canonical(&once).unwrap(), once);
            }
        }
    }
}
