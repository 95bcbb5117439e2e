//! A JSON text that is passed on without being parsed (MGP §1.5).

use std::fmt;

use bytestring::ByteString;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::RpcError;

/// A JSON value, kept as text. It is cheap to clone, and decoded only where its content is needed.
///
/// ```
/// use mgp_types::Payload;
///
/// let payload = Payload::of(&["a", "b"]).unwrap();
/// assert_eq!(payload.as_str(), r#"["a","b"]"#);
/// assert_eq!(payload.get::<Vec<String>>().unwrap(), ["a", "b"]);
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Payload(ByteString);

impl Payload {
    /// Encodes a value as JSON.
    ///
    /// # Errors
    /// Returns −32603 (internal error) if the value cannot be written as JSON (e.g. a map whose keys are not strings).
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, RpcError> {
        serde_json::to_string(value).map(|text| Self(text.into())).map_err(|error| {
            RpcError::internal("a value could not be written as JSON").because(error)
        })
    }

    /// Creates a payload from text that is already known to be a single JSON value.
    ///
    /// The text is not checked; invalid text causes an error at the receiver or when it is serialized.
    #[must_use]
    pub fn from_trusted(text: impl Into<ByteString>) -> Self {
        Self(text.into())
    }

    /// Creates a payload from text, after checking that the text is a single JSON value.
    ///
    /// # Errors
    /// Returns −32700 (parse error) if the text is not a single JSON value.
    pub fn parse(text: impl Into<ByteString>) -> Result<Self, RpcError> {
        let text = text.into();
        serde_json::from_str::<serde::de::IgnoredAny>(&text).map_err(RpcError::parse)?;
        Ok(Self(text))
    }

    /// Returns the value `null`.
    #[must_use]
    pub const fn null() -> Self {
        Self(ByteString::from_static("null"))
    }

    /// Returns the object `{}`.
    #[must_use]
    pub const fn empty_object() -> Self {
        Self(ByteString::from_static("{}"))
    }

    /// Returns the JSON text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text as shared memory, from which parts can be taken without copying.
    #[must_use]
    pub fn as_shared(&self) -> &ByteString {
        &self.0
    }

    /// Decodes the JSON as `T`.
    ///
    /// # Errors
    /// Returns −32602 (invalid params) with the reason if the value cannot be decoded.
    pub fn get<T: DeserializeOwned>(&self) -> Result<T, RpcError> {
        serde_json::from_str(&self.0).map_err(RpcError::invalid_members)
    }

    /// Returns whether the value is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.0.trim() == "null"
    }

    /// Returns whether lists and objects are nested more than `max` levels deep.
    ///
    /// Many readers of JSON refuse more than about a hundred levels.
    ///
    /// ```
    /// use mgp_types::Payload;
    ///
    /// let payload = Payload::from_trusted(r#"{"a":[1]}"#);
    /// assert!(payload.is_deeper_than(1) && !payload.is_deeper_than(2));
    /// ```
    #[must_use]
    pub fn is_deeper_than(&self, max: usize) -> bool {
        let bytes = self.0.as_bytes();
        // A text with at most `max` brackets cannot be nested more deeply than that. Few texts have more brackets, so
        // most texts need no further check.
        if bytes.iter().filter(|byte| matches!(**byte, b'[' | b'{')).count() <= max {
            return false;
        }
        let (mut depth, mut is_text, mut is_escaped) = (0_usize, false, false);
        bytes.iter().any(|byte| {
            match *byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if is_text => is_escaped = true,
                b'"' => is_text = !is_text,
                _ if is_text => {}
                b'[' | b'{' => depth += 1,
                b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth > max
        })
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Check the text again, because `from_trusted` did not check it: invalid text must cause an error here instead
        // of being sent.
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer)
            .map(|raw| Self(String::from(Box::<str>::from(raw)).into()))
    }
}

impl From<Box<RawValue>> for Payload {
    fn from(raw: Box<RawValue>) -> Self {
        Self(String::from(Box::<str>::from(raw)).into())
    }
}

crate::record::schema_of!(Payload as inline "Any", true);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preserves_the_text() {
        let text = r#"{"b":1.50,"a":[ null ]}"#;
        let payload: Payload = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&payload).unwrap(), text);
    }

    #[test]
    fn refuses_text_that_is_not_json() {
        assert_eq!(Payload::parse("{").unwrap_err().code(), crate::ErrorCode::PARSE_ERROR);
        assert!(serde_json::to_string(&Payload::from_trusted("{")).is_err());
    }

    #[test]
    fn brackets_in_texts_and_beside_each_other_are_not_levels() {
        let nested = |levels| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        for (text, depth) in [
            ("5".to_owned(), 0),
            (nested(7), 7),
            (format!("[{}]", vec!["[]"; 100].join(",")), 2),
            (format!(r#"{{"a":"\"{}","b":[{{}}]}}"#, "[{".repeat(50)), 3),
            (format!(r#"{{"\\":{}}}"#, nested(3)), 4),
        ] {
            let payload = Payload::parse(text.clone()).unwrap();
            assert!(!payload.is_deeper_than(depth), "{text}");
            assert!(depth == 0 || payload.is_deeper_than(depth - 1), "{text}");
        }
    }
}
