//! A JSON number that is written with the spelling in which it was read (MGP §12.6).

use std::fmt;

use serde::{Deserialize, Serialize};

/// A number; `1` and `1.0` stay distinct.
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
