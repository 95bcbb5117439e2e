//! Members of an object in the order they came, each still as text (MGP §10.2).

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use serde::de::{self, DeserializeOwned};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Payload, RpcError};

/// An ordered list of named JSON values: the unknown members of a record, or an open object.
///
/// ```
/// use mgp_types::{Extras, Payload};
///
/// let mut members = Extras::default();
/// members.insert("colour", Payload::of("red").unwrap());
/// assert_eq!(members.decode::<String>("colour").unwrap().as_deref(), Some("red"));
/// ```
#[derive(Clone, Default)]
pub struct Extras(Vec<(String, Payload)>);

/// An open object: the same list, where the whole object is free (`details`, `resources`, `checks`).
pub type Object = Extras;

impl Extras {
    /// Makes an empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Borrows a member.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Payload> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Decodes a member; absent and `null` are none.
    ///
    /// # Errors
    /// −32602 naming the member when it does not fit.
    pub fn decode<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, RpcError> {
        match self.get(name) {
            Some(value) if !value.is_null() => serde_json::from_str(value.as_str())
                .map(Some)
                .map_err(|error| RpcError::invalid_params(format!("{name}: {error}"))),
            _ => Ok(None),
        }
    }

    /// Sets a member and returns what it replaced; a new member goes to the end.
    pub fn insert(&mut self, name: impl Into<String>, value: Payload) -> Option<Payload> {
        let name = name.into();
        if let Some((_, old)) = self.0.iter_mut().find(|(key, _)| *key == name) {
            return Some(std::mem::replace(old, value));
        }
        self.0.push((name, value));
        None
    }

    /// Encodes a value and sets it.
    ///
    /// # Errors
    /// −32603 when the value cannot be written as JSON.
    pub fn encode<T: Serialize + ?Sized>(
        &mut self,
        name: impl Into<String>,
        value: &T,
    ) -> Result<(), RpcError> {
        self.insert(name, Payload::of(value)?);
        Ok(())
    }

    /// Takes a member out.
    pub fn remove(&mut self, name: &str) -> Option<Payload> {
        let index = self.0.iter().position(|(key, _)| key == name)?;
        Some(self.0.remove(index).1)
    }

    /// Walks the members in order.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Payload)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Whether there is no member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Counts the members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a member as it is read; repeated names are settled by `settle`.
    pub(crate) fn push_read(&mut self, name: String, value: Payload) {
        self.0.push((name, value));
    }

    /// Drops repeated names, the last one wins; linear, because a peer chooses how many there are.
    pub(crate) fn settle(mut self) -> Self {
        // Few names are compared with each other, which needs no memory.
        let few = self.0.len() <= 16;
        let repeats = |at: usize| self.0[..at].iter().any(|(name, _)| *name == self.0[at].0);
        if few && !(1..self.0.len()).any(repeats) {
            return self;
        }
        let mut last = HashMap::with_capacity(self.0.len());
        for (index, (name, _)) in self.0.iter().enumerate() {
            last.insert(name.clone(), index);
        }
        if last.len() < self.0.len() {
            let mut index = 0;
            self.0.retain(|(name, _)| {
                let keep = last.get(name) == Some(&index);
                index += 1;
                keep
            });
        }
        self
    }

    /// Writes the members into a map that is being written.
    pub(crate) fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        self.0.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))
    }
}

// === impl PartialEq ===

impl PartialEq for Extras {
    /// Order does not matter in a JSON object, so it does not matter here.
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len()
            && self.0.iter().all(|(name, value)| other.get(name) == Some(value))
    }
}

// === impl FromIterator ===

impl<N: Into<String>> FromIterator<(N, Payload)> for Extras {
    fn from_iter<I: IntoIterator<Item = (N, Payload)>>(members: I) -> Self {
        Self(members.into_iter().map(|(name, value)| (name.into(), value)).collect()).settle()
    }
}

// === impl Debug ===

impl fmt::Debug for Extras {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

// === impl Serialize ===

impl Serialize for Extras {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        self.write(&mut map)?;
        map.end()
    }
}

// === impl Deserialize ===

impl<'de> Deserialize<'de> for Extras {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Extras;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Extras, A::Error> {
                let mut members = Extras::new();
                while let Some(name) = map.next_key()? {
                    members.push_read(name, map.next_value()?);
                }
                Ok(members.settle())
            }
        }

        deserializer.deserialize_map(Visitor)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Extras {
    fn schema_name() -> Cow<'static, str> {
        "Object".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "object" })
    }
}

/// The text of a JSON string that was read before as a raw value; none for a value of another kind.
///
/// Without escapes it is what stands between the quotes, and needs no second parse.
#[cfg(feature = "service")]
pub(crate) fn text_of(json: &str) -> Option<Cow<'_, str>> {
    match json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        // Most are short, where a plain loop is quicker than a search.
        Some(text) if text.bytes().all(|byte| byte != b'\\') => Some(Cow::Borrowed(text)),
        _ => serde_json::from_str::<Key<'_>>(json).ok().map(|Key(text)| text),
    }
}

/// The name of a member while it is read: borrowed from the text unless it holds escapes.
#[derive(Debug)]
pub(crate) struct Key<'de>(pub(crate) Cow<'de, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a member name")
            }

            fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(name)))
            }

            fn visit_str<E>(self, name: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(name.to_owned())))
            }

            fn visit_string<E>(self, name: String) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(name)))
            }
        }

        deserializer.deserialize_str(Visitor)
    }
}
