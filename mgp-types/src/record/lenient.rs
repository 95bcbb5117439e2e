//! A member that may be malformed without invalidating the message around it (MGP §2.4, §4.1).

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::decode;
use crate::Payload;

/// A decoded value, or the JSON of a value that cannot be decoded.
///
/// A peer with a malformed `mgp` capability counts as a plain MCP peer, and a tool with a malformed `security` member
/// counts as dangerous. Neither error invalidates the handshake or the list of tools that contains it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Lenient<T> {
    /// The decoded value.
    Valid(T),
    /// The JSON that cannot be decoded, as received.
    Malformed(Payload),
}

impl<T> Lenient<T> {
    /// Returns the decoded value, or `None` if it is malformed.
    #[must_use]
    pub fn valid(&self) -> Option<&T> {
        match self {
            Self::Valid(value) => Some(value),
            Self::Malformed(_) => None,
        }
    }
}

impl<T> From<T> for Lenient<T> {
    fn from(value: T) -> Self {
        Self::Valid(value)
    }
}

impl<T: Serialize> Serialize for Lenient<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Valid(value) => value.serialize(serializer),
            Self::Malformed(raw) => raw.serialize(serializer),
        }
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Payload::deserialize(deserializer)?;
        Ok(match decode::<_, D::Error>(&raw) {
            Ok(value) => Self::Valid(value),
            Err(_) => Self::Malformed(raw),
        })
    }
}

#[cfg(feature = "schema")]
impl<T: schemars::JsonSchema> schemars::JsonSchema for Lenient<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> std::borrow::Cow<'static, str> {
        T::schema_id()
    }

    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        T::json_schema(generator)
    }
}
