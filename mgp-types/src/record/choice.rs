//! Enums of records, distinguished by the value of one member (MCP content blocks, references, modes).

use std::cell::Cell;
use std::fmt;

use serde::de::{self, DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Key;
use crate::Payload;

/// Defines an enum of records. The string value of one member, the tag, determines the variant.
///
/// ```text
/// tagged! {
///     /// A content block.
///     pub enum ContentBlock by "type" {
///         /// Text.
///         "text" => Text(TextContent),
///     }
/// }
/// ```
///
/// A value is decoded in three steps: it is stored as raw JSON, the tag is read from it, and the record for that tag is
/// decoded. A value with an unknown tag is preserved in `Other`.
macro_rules! tagged {
    ($(
        $(#[doc = $doc:literal])*
        $vis:vis enum $name:ident by $tag:literal $(else $absent:literal)? {
            $( $(#[doc = $case_doc:literal])* $text:literal => $case:ident($ty:ty) ),* $(,)?
        }
    )+) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        $vis enum $name {
            $( $(#[doc = $case_doc])* $case($ty), )*
            /// A record with an unknown tag, as received.
            Other($crate::Payload),
        }

        $(
            impl From<$ty> for $name {
                fn from(value: $ty) -> Self {
                    Self::$case(value)
                }
            }
        )*

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(
                &self,
                serializer: S,
            ) -> ::std::result::Result<S::Ok, S::Error> {
                match self {
                    $( Self::$case(value) => value.serialize(serializer), )*
                    Self::Other(value) => value.serialize(serializer),
                }
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> ::std::result::Result<Self, D::Error> {
                let raw = $crate::Payload::deserialize(deserializer)?;
                let tag = $crate::record::peek::<D::Error>(&raw, $tag)?;
                $( let tag = tag.or_else(|| Some($absent.to_owned())); )?
                match tag.as_deref() {
                    $( Some($text) => $crate::record::decode(&raw).map(Self::$case), )*
                    Some(_) => Ok(Self::Other(raw)),
                    None => Err(::serde::de::Error::missing_field($tag)),
                }
            }
        }

        #[cfg(feature = "schema")]
        impl ::schemars::JsonSchema for $name {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                ::schemars::json_schema!({
                    "description": concat!($($doc, "\n"),*).trim(),
                    "anyOf": [$( generator.subschema_for::<$ty>(), )* { "type": "object" }],
                })
            }
        }
    )+};
}

pub(crate) use tagged;

/// Returns the value of a string member of an object; `None` if the member is absent. A value that is not an object is
/// an error.
pub(crate) fn peek<E: de::Error>(raw: &Payload, tag: &'static str) -> Result<Option<String>, E> {
    struct Seed(&'static str);

    impl<'de> de::DeserializeSeed<'de> for Seed {
        type Value = Option<String>;

        fn deserialize<D: Deserializer<'de>>(
            self,
            deserializer: D,
        ) -> Result<Self::Value, D::Error> {
            deserializer.deserialize_map(self)
        }
    }

    impl<'de> de::Visitor<'de> for Seed {
        type Value = Option<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "an object with member `{}`", self.0)
        }

        fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut found = None;
            while let Some(key) = map.next_key::<Key<'_>>()? {
                if key.0 == self.0 {
                    found = map.next_value()?;
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(found)
        }
    }

    let mut deserializer = serde_json::Deserializer::from_str(raw.as_str());
    de::DeserializeSeed::deserialize(Seed(tag), &mut deserializer).map_err(E::custom)
}

/// The maximum number of nested calls of [`decode`]; the messages of MCP need three.
const MAX_NESTING: u8 = 16;

/// Decodes a JSON text that was stored raw by an outer decoder. Counts how deeply such calls are nested.
///
/// Every call of `serde_json::from_str` starts with a fresh recursion limit, and reading raw JSON has no limit. Without
/// this count, deeply nested content blocks could overflow the stack.
pub(crate) fn decode<T: DeserializeOwned, E: de::Error>(raw: &Payload) -> Result<T, E> {
    let _level = Level::enter().ok_or_else(|| E::custom("nested too deep"))?;
    serde_json::from_str(raw.as_str()).map_err(E::custom)
}

thread_local! {
    static DEPTH: Cell<u8> = const { Cell::new(0) };
}

struct Level;

impl Level {
    fn enter() -> Option<Self> {
        let depth = DEPTH.get();
        (depth < MAX_NESTING).then(|| {
            DEPTH.set(depth + 1);
            Self
        })
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// The tag member of a record while the record is being decoded: its expected value, and the value that was found.
#[derive(Debug)]
pub(crate) struct Tag {
    expected: &'static str,
    found: Option<String>,
}

impl Tag {
    pub(crate) const fn new(expected: &'static str) -> Self {
        Self { expected, found: None }
    }

    pub(crate) fn read<'de, A: de::MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        self.found = Some(map.next_value()?);
        Ok(())
    }

    /// Checks that the tag was present and had the expected value; `name` is the name of the member, for the error.
    pub(crate) fn check<E: de::Error>(&self, name: &'static str) -> Result<(), E> {
        match self.found.as_deref() {
            None => Err(E::missing_field(name)),
            Some(found) if found == self.expected => Ok(()),
            Some(found) => Err(E::custom(format_args!(
                "{name}: expected `{}`, found `{found}`",
                self.expected
            ))),
        }
    }
}

/// One value or a list of values; encoded in the form in which it was received.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum OneOrMany<T> {
    /// A single value, which is written without a list.
    One(T),
    /// A list of values.
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    /// Returns the values as a slice.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Many(values) => values,
        }
    }
}

impl<T> From<T> for OneOrMany<T> {
    fn from(value: T) -> Self {
        Self::One(value)
    }
}

/// A list with a single value becomes that value, because older peers do not accept lists.
impl<T> From<Vec<T>> for OneOrMany<T> {
    fn from(values: Vec<T>) -> Self {
        match <[T; 1]>::try_from(values) {
            Ok([value]) => Self::One(value),
            Err(values) => Self::Many(values),
        }
    }
}

impl<T: Serialize> Serialize for OneOrMany<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::One(value) => value.serialize(serializer),
            Self::Many(values) => values.serialize(serializer),
        }
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Payload::deserialize(deserializer)?;
        if raw.as_str().trim_start().starts_with('[') {
            decode(&raw).map(Self::Many)
        } else {
            decode(&raw).map(Self::One)
        }
    }
}

#[cfg(feature = "schema")]
impl<T: schemars::JsonSchema> schemars::JsonSchema for OneOrMany<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("OneOrMany_{}", T::schema_name()).into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "anyOf": [generator.subschema_for::<T>(), generator.subschema_for::<Vec<T>>()],
        })
    }
}
