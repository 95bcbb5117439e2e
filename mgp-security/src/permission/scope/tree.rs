//! A strict parser of arguments into a tree; refuses anything that two parsers could understand differently.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// The maximum length of arguments in bytes. Longer arguments are out of scope.
const LENGTH_MAX: usize = 256 * 1024;

/// The maximum number of values in the arguments of a call.
const VALUES_MAX: usize = 2048;

/// The maximum nesting depth of the arguments of a call.
const DEPTH_MAX: usize = 32;

/// The maximum length of a member's name in bytes. Each value of a list is checked with a copy of the list's name.
const NAME_MAX: usize = 4096;

/// One JSON value.
#[derive(Debug)]
pub(super) enum Node {
    Object(Vec<(String, Self)>),
    Array(Vec<Self>),
    Text(String),
    /// A number as `f64`, which is precise enough for limits.
    Number(f64),
    Bool,
    Null,
}

impl Node {
    /// Parses arguments.
    ///
    /// # Errors
    /// A description of the reason, if the text is not JSON, repeats a member, is nested too deeply or is too large.
    pub(super) fn read(json: &str) -> Result<Self, String> {
        if json.len() > LENGTH_MAX {
            return Err(format!(
                "the arguments are longer than {LENGTH_MAX} bytes, too long to check"
            ));
        }
        let values = Cell::new(0);
        let mut reader = serde_json::Deserializer::from_str(json);
        let read = Seed { depth: 0, values: &values }
            .deserialize(&mut reader)
            .and_then(|node| reader.end().map(|()| node));
        read.map_err(|error| format!("the arguments cannot be checked: {error}"))
    }
}

#[derive(Clone, Copy)]
struct Seed<'a> {
    depth: usize,
    values: &'a Cell<usize>,
}

impl Seed<'_> {
    fn deeper<E: Error>(self) -> Result<Self, E> {
        if self.depth == DEPTH_MAX {
            return Err(E::custom("they are nested too deep"));
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        self.values.set(self.values.get() + 1);
        if self.values.get() > VALUES_MAX {
            return Err(D::Error::custom("they have too many values"));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Bool)
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "limits are far smaller than what a double holds exactly"
    )]
    fn visit_i64<E>(self, number: i64) -> Result<Node, E> {
        Ok(Node::Number(number as f64))
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "limits are far smaller than what a double holds exactly"
    )]
    fn visit_u64<E>(self, number: u64) -> Result<Node, E> {
        Ok(Node::Number(number as f64))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Node, E> {
        Ok(Node::Number(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
        let inner = self.deeper()?;
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(inner)? {
            items.push(item);
        }
        Ok(Node::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let inner = self.deeper()?;
        let mut members: Vec<(String, Node)> = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if name.len() > NAME_MAX {
                return Err(A::Error::custom("the name of a member is too long"));
            }
            // Parsers differ in whether they use the first or the last duplicate, so a duplicate is an error.
            if members.iter().any(|(known, _)| *known == name) {
                return Err(A::Error::custom("a member occurs twice"));
            }
            members.push((name, map.next_value_seed(inner)?));
        }
        Ok(Node::Object(members))
    }
}
