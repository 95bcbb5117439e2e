//! Numbers: a type that keeps integers and floats apart (MGP §12.6), and a decoder of whole numbers that accepts each
//! way of writing them.

use std::fmt;

use serde::de::{self, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::Nullable;

/// The largest number up to which a float represents every whole number exactly: 2^53.
pub(crate) const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// A JSON number that stays an integer or a float, as it was read, so that `1` and `1.0` stay distinct.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Number(serde_json::Number);

impl Number {
    /// Returns the number as a float.
    #[must_use]
    pub fn to_f64(&self) -> f64 {
        self.0.as_f64().unwrap_or_default()
    }
}

impl From<f64> for Number {
    /// Converts a float; infinity and NaN, which JSON does not have, become 0.
    fn from(number: f64) -> Self {
        Self(serde_json::Number::from_f64(number).unwrap_or_else(|| 0.into()))
    }
}

impl From<u64> for Number {
    fn from(number: u64) -> Self {
        Self(number.into())
    }
}

impl From<i64> for Number {
    fn from(number: i64) -> Self {
        Self(number.into())
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

crate::record::schema_of!(Number as inline "Number", { "type": "number" });

/// A type of a field for a whole number: `u64` or `u32`, or a type that also has a value for a missing number. Programs
/// in some languages write `60000` as `60000.0`, which is decoded as the same number.
pub(crate) trait ReadWhole: Sized {
    /// Decodes the next value of a map. If `ROUNDS` is set, a fraction is rounded up; otherwise it is an error.
    fn read<'de, A: MapAccess<'de>, const ROUNDS: bool>(map: &mut A) -> Result<Self, A::Error>;
}

impl ReadWhole for u64 {
    fn read<'de, A: MapAccess<'de>, const ROUNDS: bool>(map: &mut A) -> Result<Self, A::Error> {
        map.next_value().map(|Whole::<ROUNDS>(number)| number)
    }
}

impl ReadWhole for Option<u64> {
    fn read<'de, A: MapAccess<'de>, const ROUNDS: bool>(map: &mut A) -> Result<Self, A::Error> {
        let number: Option<Whole<ROUNDS>> = map.next_value()?;
        Ok(number.map(|Whole(number)| number))
    }
}

impl ReadWhole for u32 {
    fn read<'de, A: MapAccess<'de>, const ROUNDS: bool>(map: &mut A) -> Result<Self, A::Error> {
        u64::read::<A, ROUNDS>(map).and_then(narrow)
    }
}

impl ReadWhole for Option<u32> {
    fn read<'de, A: MapAccess<'de>, const ROUNDS: bool>(map: &mut A) -> Result<Self, A::Error> {
        Option::<u64>::read::<A, ROUNDS>(map)?.map(narrow).transpose()
    }
}

impl ReadWhole for Nullable<u64> {
    fn read<'de, A: MapAccess<'de>, const ROUNDS: bool>(map: &mut A) -> Result<Self, A::Error> {
        Option::<u64>::read::<A, ROUNDS>(map).map(Self::from)
    }
}

fn narrow<E: de::Error>(number: u64) -> Result<u32, E> {
    let narrowed = u32::try_from(number);
    narrowed.map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &"a number below 2^32"))
}

/// A decoded whole number that is not negative; `60000.0` and `6e4` are decoded as `60000`. If `ROUNDS` is set, a
/// fraction is rounded up; otherwise it is an error.
struct Whole<const ROUNDS: bool>(u64);

impl<'de, const ROUNDS: bool> Deserialize<'de> for Whole<ROUNDS> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_u64(WholeVisitor::<ROUNDS>)
    }
}

struct WholeVisitor<const ROUNDS: bool>;

impl<const ROUNDS: bool> Visitor<'_> for WholeVisitor<ROUNDS> {
    type Value = Whole<ROUNDS>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = if ROUNDS { "" } else { "whole " };
        write!(f, "a {whole}number that is not negative")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Whole(number))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
        let whole = u64::try_from(number);
        whole.map(Whole).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the number is whole, not negative, and at most 2^53"
    )]
    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Self::Value, E> {
        if (0.0..=MAX_EXACT).contains(&number) && (ROUNDS || number.fract() == 0.0) {
            return Ok(Whole(number.ceil() as u64));
        }
        Err(E::invalid_value(Unexpected::Float(number), &self))
    }
}
