//! Deserializes a type from a map of strings; strings are parsed as numbers, booleans or enum variants where the type
//! has such fields.

use std::collections::BTreeMap;

use serde::de::value::{MapDeserializer, StrDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error as _, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

type Error = serde::de::value::Error;

/// Deserializes a value from named strings.
pub(super) fn read<T: DeserializeOwned>(texts: &BTreeMap<String, String>) -> Result<T, Error> {
    T::deserialize(MapDeserializer::new(
        texts.iter().map(|(name, text)| (name.as_str(), Text { name, text })),
    ))
}

/// Returns the fields of a struct in the order of declaration; empty for other types.
pub(crate) fn fields<T: DeserializeOwned>() -> &'static [&'static str] {
    struct FieldRecorder<'a>(&'a mut &'static [&'static str]);

    impl<'de> Deserializer<'de> for FieldRecorder<'_> {
        type Error = Error;

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
            Err(Error::custom("only the fields were read"))
        }

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, Error> {
            *self.0 = fields;
            Err(Error::custom("only the fields were read"))
        }

        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
            unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    let mut fields: &'static [&'static str] = &[];
    // The recorder lets deserialization fail as soon as it has the names of the fields, so the result is always an
    // error.
    let _ = T::deserialize(FieldRecorder(&mut fields));
    fields
}

/// The value of an argument, with the name of the argument for error messages.
#[derive(Clone, Copy)]
struct Text<'a> {
    name: &'a str,
    text: &'a str,
}

impl Text<'_> {
    fn parse<T: std::str::FromStr>(self, what: &str) -> Result<T, Error> {
        self.text.parse().map_err(|_| self.wrong(format_args!("`{}` is not {what}", self.shown())))
    }

    fn shown(self) -> String {
        mgp_types::clip(self.text, 80)
    }

    fn wrong(self, why: impl std::fmt::Display) -> Error {
        Error::custom(format_args!("`{}`: {why}", self.name))
    }
}

impl<'de, 'a: 'de> IntoDeserializer<'de, Error> for Text<'a> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

macro_rules! parsed {
    ($($method:ident $visit:ident $ty:ty, $what:literal;)+) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            visitor.$visit::<Error>(self.parse::<$ty>($what)?).map_err(|error| self.wrong(error))
        }
    )+};
}

impl<'de, 'a: 'de> Deserializer<'de> for Text<'a> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_borrowed_str::<Error>(self.text).map_err(|error| self.wrong(error))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let word: StrDeserializer<'_, Error> = self.text.into_deserializer();
        visitor.visit_enum(word).map_err(|error| self.wrong(error))
    }

    parsed! {
        deserialize_bool visit_bool bool, "a boolean (`true` or `false`)";
        deserialize_i8 visit_i8 i8, "an integer from -128 to 127";
        deserialize_i16 visit_i16 i16, "an integer from -32768 to 32767";
        deserialize_i32 visit_i32 i32, "an integer";
        deserialize_i64 visit_i64 i64, "an integer";
        deserialize_i128 visit_i128 i128, "an integer";
        deserialize_u8 visit_u8 u8, "an integer from 0 to 255";
        deserialize_u16 visit_u16 u16, "an integer from 0 to 65535";
        deserialize_u32 visit_u32 u32, "a non-negative integer";
        deserialize_u64 visit_u64 u64, "a non-negative integer";
        deserialize_u128 visit_u128 u128, "a non-negative integer";
        deserialize_f32 visit_f32 f32, "a number";
        deserialize_f64 visit_f64 f64, "a number";
    }

    forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier
        ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Tone {
        Kind,
        Stern,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Reads {
        word: String,
        count: u32,
        ratio: Option<f64>,
        tone: Option<Tone>,
        #[serde(default)]
        loud: bool,
    }

    #[track_caller]
    fn check(texts: &[(&str, &str)], expected: Result<Reads, &str>) {
        let texts = texts.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        let read = read::<Reads>(&texts.collect()).map_err(|error| error.to_string());
        assert_eq!(read, expected.map_err(str::to_owned));
    }

    #[test]
    fn types_are_read_from_text_and_errors_name_the_field() {
        let base = [("word", "7"), ("count", "3")];
        let reads = |ratio, tone, loud| Reads { word: "7".to_owned(), count: 3, ratio, tone, loud };
        check(&base, Ok(reads(None, None, false)));
        let more = [("ratio", "0.5"), ("tone", "stern"), ("loud", "true"), ("unknown", "x")];
        check(&[&base[..], &more].concat(), Ok(reads(Some(0.5), Some(Tone::Stern), true)));
        check(&[("word", "a")], Err("missing field `count`"));
        check(&[("count", "x")], Err("`count`: `x` is not a non-negative integer"));
        check(
            &[("tone", "loud")],
            Err("`tone`: unknown variant `loud`, expected `kind` or `stern`"),
        );
        check(&[("loud", "yes")], Err("`loud`: `yes` is not a boolean (`true` or `false`)"));
        assert_eq!(fields::<Reads>(), ["word", "count", "ratio", "tone", "loud"]);
        assert!(fields::<BTreeMap<String, String>>().is_empty());
        assert_ne!(Tone::Kind, Tone::Stern);
    }
}
