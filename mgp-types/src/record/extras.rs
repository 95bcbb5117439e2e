//! Members of an object in the order received, each still as text (MGP §10.2).

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use serde::de::{self, DeserializeOwned};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
#[cfg(feature = "service")]
use serde_json::value::RawValue;

use crate::{Payload, RpcError};

/// An ordered list of named JSON values: the unknown members of a record, or an object whose members are not fixed.
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

/// A JSON object whose members are not fixed (`details`, `resources`, `checks`); the same type as [`Extras`].
pub type Object = Extras;

impl Extras {
    /// Creates an empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns the value of a member.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Payload> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Decodes the value of a member; returns `None` if the member is absent or `null`.
    ///
    /// # Errors
    /// Returns −32602 (invalid params) with the name of the member if its value cannot be decoded.
    pub fn decode<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, RpcError> {
        match self.get(name) {
            Some(value) if !value.is_null() => serde_json::from_str(value.as_str())
                .map(Some)
                .map_err(|error| RpcError::invalid_member(name, error)),
            _ => Ok(None),
        }
    }

    /// Adds a member at the end, or replaces the value of an existing member and returns the old value.
    pub fn insert(&mut self, name: impl Into<String>, value: Payload) -> Option<Payload> {
        let name = name.into();
        if let Some((_, old)) = self.0.iter_mut().find(|(key, _)| *key == name) {
            return Some(std::mem::replace(old, value));
        }
        self.0.push((name, value));
        None
    }

    /// Encodes a value as JSON and sets it as a member.
    ///
    /// # Errors
    /// Returns −32603 (internal error) if the value cannot be written as JSON.
    pub fn encode<T: Serialize + ?Sized>(
        &mut self,
        name: impl Into<String>,
        value: &T,
    ) -> Result<(), RpcError> {
        self.insert(name, Payload::of(value)?);
        Ok(())
    }

    /// Sets a member to a value that can always be written as JSON, e.g. a text or a number. Sets nothing if the value
    /// cannot be written.
    ///
    /// ```
    /// use mgp_types::Object;
    ///
    /// let details = Object::new().with("limit", &10).with_optional("tool", None::<&str>);
    /// assert_eq!(serde_json::to_string(&details).unwrap(), r#"{"limit":10}"#);
    /// ```
    #[must_use]
    pub fn with<T: Serialize + ?Sized>(mut self, name: &str, value: &T) -> Self {
        if let Ok(value) = Payload::of(value) {
            self.insert(name, value);
        }
        self
    }

    /// Sets a member like [`with`](Self::with), if it has a value.
    #[must_use]
    pub fn with_optional<T: Serialize + ?Sized>(self, name: &str, value: Option<&T>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Removes a member and returns its value.
    pub fn remove(&mut self, name: &str) -> Option<Payload> {
        let index = self.0.iter().position(|(key, _)| key == name)?;
        Some(self.0.remove(index).1)
    }

    /// Returns the members, in the order received.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Payload)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Returns whether there are no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a member while an object is decoded, without checking for a repeated name. Afterwards,
    /// [`dedup`](Self::dedup) must be called to remove repeated members.
    pub(crate) fn push_read(&mut self, name: String, value: Payload) {
        self.0.push((name, value));
    }

    /// Removes all but the last member of each name. Takes linear time, so that a peer cannot slow this process down
    /// with many members.
    pub(crate) fn dedup(mut self) -> Self {
        // Up to 16 names are compared in pairs, because this needs no allocation.
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

    pub(crate) fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        self.0.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))
    }
}

impl PartialEq for Extras {
    /// Compares the members without regard to their order, which has no meaning in JSON. Takes linear time, so that a
    /// peer cannot slow this process down with many members.
    fn eq(&self, other: &Self) -> bool {
        if self.0.len() != other.0.len() {
            return false;
        }
        // Most equal objects also have their members in the same order, so compare them in this order first.
        if self.0 == other.0 {
            return true;
        }
        let members: HashMap<&str, &Payload> = other.iter().collect();
        self.iter().all(|(name, value)| members.get(name) == Some(&value))
    }
}

impl<N: Into<String>> FromIterator<(N, Payload)> for Extras {
    fn from_iter<I: IntoIterator<Item = (N, Payload)>>(members: I) -> Self {
        Self(members.into_iter().map(|(name, value)| (name.into(), value)).collect()).dedup()
    }
}

impl fmt::Debug for Extras {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Serialize for Extras {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        self.write(&mut map)?;
        map.end()
    }
}

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
                Ok(members.dedup())
            }
        }

        deserializer.deserialize_map(Visitor)
    }
}

crate::record::schema_of!(Extras as inline "Object", { "type": "object" });

/// Returns the text of a raw JSON string, or `None` for a value of another kind.
///
/// A string without escapes is returned as the text between the quotes, without a second parse.
#[cfg(feature = "service")]
pub(crate) fn text_of(json: &str) -> Option<Cow<'_, str>> {
    match json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        // Search for a backslash with a plain loop: most strings are short, and for short strings the loop is faster
        // than an optimized search.
        Some(text) if text.bytes().all(|byte| byte != b'\\') => Some(Cow::Borrowed(text)),
        _ => serde_json::from_str::<Key<'_>>(json).ok().map(|Key(text)| text),
    }
}

/// The name of a member that is being decoded; borrowed from the JSON text unless the name contains escapes.
#[derive(Debug)]
pub(crate) struct Key<'de>(pub(crate) Cow<'de, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
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

/// The members of an object in the order received, with repetitions, borrowed from the text.
#[cfg(feature = "service")]
#[derive(Debug)]
pub struct Members<'a>(pub Vec<(Cow<'a, str>, &'a RawValue)>);

#[cfg(feature = "service")]
impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(Key(name)) = map.next_key()? {
                    members.push((name, map.next_value()?));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Visitor)
    }
}
