//! The members of a signed JSON object: unique names, unparsed values (RFC 7515 §4, RFC 7519 §4).

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::{DeserializeOwned, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The members of an object. An object with two members of the same name is refused, because parsers differ in which of
/// the two members they use.
#[derive(Debug)]
pub(super) struct Members(BTreeMap<String, Box<RawValue>>);

/// The error for a member whose value has another type than expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WrongType;

impl Members {
    /// Parses one base64url-encoded part of a token.
    pub(super) fn of_part(part: &str) -> Option<Self> {
        let json = URL_SAFE_NO_PAD.decode(part).ok()?;
        serde_json::from_slice(&json).ok()
    }

    /// Returns whether there is a member of this name, even one that is `null`.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns whether a member has a value other than `null`.
    pub(super) fn is_set(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| value.get() != "null")
    }

    /// Returns the value of a member as the type `T`, or `None` if it is missing or `null`: some issuers write `null`
    /// for a value that they do not have.
    pub(super) fn get<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, WrongType> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        serde_json::from_str::<Option<T>>(value.get()).map_err(|_| WrongType)
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Once;

        impl<'de> Visitor<'de> for Once {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = BTreeMap::new();
                while let Some(name) = map.next_key::<String>()? {
                    if members.contains_key(&name) {
                        return Err(A::Error::custom("duplicate member name"));
                    }
                    members.insert(name, map.next_value()?);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Once)
    }
}
