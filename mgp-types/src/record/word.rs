//! Enums of strings: extensible enums by `open_enum!`, closed enums by `string_enum!` (MGP §3.2, §6.4).

/// Defines an enum of strings that preserves unknown values.
///
/// A value can be written in several ways, e.g. `Safe = "safe" | "SAFE"`: all of them are decoded, and the first is
/// encoded.
macro_rules! open_enum {
    ($(
        $(#[doc = $doc:literal])*
        $vis:vis enum $name:ident {
            $( $(#[doc = $word_doc:literal])* $word:ident = $text:literal $(| $alias:literal)* ),* $(,)?
        }
    )+) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        $vis enum $name {
            $( $(#[doc = $word_doc])* $word, )*
            /// A value that this version does not know, as received.
            Other(::bytestring::ByteString),
        }

        impl $name {
            /// The values known to this version.
            pub const KNOWN: &'static [Self] = &[$(Self::$word),*];

            /// Returns the value as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $( Self::$word => $text, )*
                    Self::Other(text) => text,
                }
            }

            /// Returns whether the value is known to this version.
            #[must_use]
            pub fn is_known(&self) -> bool {
                !matches!(self, Self::Other(_))
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $( $text $(| $alias)* => Self::$word, )*
                    _ => Self::Other(text.into()),
                }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(
                &self,
                serializer: S,
            ) -> ::std::result::Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> ::std::result::Result<Self, D::Error> {
                $crate::record::Key::deserialize(deserializer).map(|word| Self::from(&*word.0))
            }
        }

        #[cfg(feature = "schema")]
        impl ::schemars::JsonSchema for $name {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                ::schemars::json_schema!({
                    "description": concat!($($doc, "\n"),*).trim(),
                    "anyOf": [{ "type": "string", "enum": [$($text),*] }, { "type": "string" }],
                })
            }
        }
    )+};
}

/// Defines a closed enum of strings: an unknown value is an error.
macro_rules! string_enum {
    ($(
        $(#[doc = $doc:literal])*
        $vis:vis enum $name:ident {
            $( $(#[doc = $word_doc:literal])* $word:ident = $text:literal $(| $alias:literal)* ),* $(,)?
        }
    )+) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        $vis enum $name {
            $( $(#[doc = $word_doc])* $word, )*
        }

        impl $name {
            /// All values, in the order of the specification.
            pub const ALL: &'static [Self] = &[$(Self::$word),*];

            /// Returns the value as text.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $( Self::$word => $text, )*
                }
            }

            /// Returns the value with this text; `None` if no value has it.
            #[must_use]
            pub fn from_word(text: &str) -> Option<Self> {
                match text {
                    $( $text $(| $alias)* => Some(Self::$word), )*
                    _ => None,
                }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(
                &self,
                serializer: S,
            ) -> ::std::result::Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> ::std::result::Result<Self, D::Error> {
                let word = $crate::record::Key::deserialize(deserializer)?;
                Self::from_word(&word.0)
                    .ok_or_else(|| ::serde::de::Error::unknown_variant(&word.0, &[$($text),*]))
            }
        }

        #[cfg(feature = "schema")]
        impl ::schemars::JsonSchema for $name {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                ::schemars::json_schema!({
                    "description": concat!($($doc, "\n"),*).trim(),
                    "type": "string",
                    "enum": [$($text),*],
                })
            }
        }
    )+};
}

pub(crate) use {open_enum, string_enum};
