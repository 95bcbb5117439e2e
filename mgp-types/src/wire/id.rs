//! Request ids (MGP §1.5).

use std::fmt;

use bytestring::ByteString;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::record::MAX_EXACT;

/// The id of a request: an integer or a string. A peer's id is returned to the peer unchanged, except that `1.0`
/// becomes `1`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Id {
    /// An integer.
    Number(i64),
    /// A string.
    String(ByteString),
}

impl From<i64> for Id {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Id {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::String(text) => text.fmt(f),
        }
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_i64(*number),
            Self::String(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Id;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an integer or a string")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Id, E> {
                Ok(Id::Number(number))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Id, E> {
                i64::try_from(number)
                    .map(Id::Number)
                    .map_err(|_| E::invalid_value(de::Unexpected::Unsigned(number), &self))
            }

            // Programs in languages whose numbers are floats write the id `1` as `1.0`, so a whole float is read as an
            // integer.
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Id, E> {
                whole_of(number)
                    .map(Id::Number)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Float(number), &self))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Id, E> {
                Ok(Id::String(text.into()))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

/// Returns a float as an integer; `None` if it is not a whole number, or too large to be represented exactly.
#[expect(clippy::cast_possible_truncation, reason = "the number is whole and at most 2^53")]
fn whole_of(number: f64) -> Option<i64> {
    let is_whole = (-MAX_EXACT..=MAX_EXACT).contains(&number) && number.fract() == 0.0;
    is_whole.then_some(number as i64)
}

crate::record::schema_of!(Id as "Id", { "type": ["integer", "string"] });

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<Id>) {
        assert_eq!(serde_json::from_str::<Id>(text).ok(), expected, "{text}");
        if let Some(id) = expected {
            assert_eq!(serde_json::to_string(&id).unwrap(), text);
        }
    }

    #[test]
    fn takes_integers_and_strings_only() {
        check("0", Some(Id::Number(0)));
        check("-7", Some(Id::Number(-7)));
        check("9007199254740993", Some(Id::Number(9_007_199_254_740_993)));
        check(r#""a""#, Some(Id::from("a")));
        check("1.5", None);
        check("1e300", None);
        check("99999999999999999999", None);
        check("null", None);
        check("[1]", None);
    }

    #[test]
    fn a_whole_float_is_an_integer() {
        for (text, expected) in [("1.0", 1), ("-7.0", -7), ("0.0", 0), ("1e2", 100)] {
            assert_eq!(serde_json::from_str::<Id>(text).unwrap(), Id::Number(expected), "{text}");
        }
    }
}
