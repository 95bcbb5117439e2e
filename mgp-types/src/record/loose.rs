//! Members that programs write in another form than MCP requires, because their programming language does not
//! distinguish the two forms.
//!
//! PHP writes an empty object as `[]`, Perl a flag as `0` or `1`, and Java an absent member as `null`. Such a value is
//! read with the meaning that its author intended. When this process writes the member, the value has the form of MCP.

use std::fmt;

use serde::de::{self, DeserializeOwned, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::{RawObject, decode};
use crate::Payload;

/// Members of a schema whose values are objects that map names to schemas.
const NAMED: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// Members of a schema whose values are data, not schemas.
const DATA: [&str; 5] = ["const", "default", "enum", "examples", "required"];

/// Members of a schema whose value may be `null`.
const NULLABLE: [&str; 2] = ["const", "default"];

/// Returns whether a JSON value is a list without elements.
pub(crate) fn is_empty_list(json: &str) -> bool {
    let inner = json.trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    inner.is_some_and(|inner| inner.trim().is_empty())
}

/// An object that the sender may have written as `{…}` or, if it is empty, as an empty list.
pub(crate) struct ObjectOrList<T>(pub(crate) T);

impl<'de, T: DeserializeOwned> Deserialize<'de> for ObjectOrList<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Payload::deserialize(deserializer)?;
        let raw = if is_empty_list(raw.as_str()) { Payload::empty_object() } else { raw };
        decode(&raw).map(Self)
    }
}

/// A JSON Schema in which members with the value `null` are removed, except `const` and `default`, and empty lists in
/// place of objects, e.g. as `properties`, are replaced by empty objects.
pub(crate) struct Schema<T>(pub(crate) T);

impl<'de, T: From<RawObject>> Deserialize<'de> for Schema<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Payload::deserialize(deserializer)?;
        let raw = if is_empty_list(raw.as_str()) {
            Payload::empty_object()
        } else {
            fitted(&raw).unwrap_or(raw)
        };
        RawObject::try_from(raw)
            .map(|schema| Self(schema.into()))
            .map_err(|_| de::Error::custom("expected an object"))
    }
}

/// Returns a schema converted to the form that validators and models accept, or `None` if it already has this form.
fn fitted(schema: &Payload) -> Option<Payload> {
    // Parse only the few schemas that contain `null` or an empty list.
    let text = schema.as_str();
    if !has_member(text, "[]", &DATA) && !has_member(text, "null", &NULLABLE) {
        return None;
    }
    let mut value: Value = serde_json::from_str(text).ok()?;
    if fit(&mut value) { Payload::of(&value).ok() } else { None }
}

/// Returns whether a schema might have a member with the value `value`, apart from members whose names are in `except`.
fn has_member(schema: &str, value: &str, except: &[&str]) -> bool {
    schema.match_indices(value).any(|(at, _)| {
        let name = schema[..at].trim_end().strip_suffix(':').map(str::trim_end);
        let name = name.and_then(|name| name.strip_suffix('"')?.rsplit('"').next());
        name.is_some_and(|name| !except.contains(&name))
    })
}

/// Converts the members of a schema, and of the schemas inside it, to the form that validators accept; returns whether
/// anything has changed.
fn fit(schema: &mut Value) -> bool {
    let mut is_changed = false;
    match schema {
        Value::Array(parts) => {
            for part in parts {
                is_changed |= fit(part);
            }
        }
        Value::Object(members) => {
            let before = members.len();
            members.retain(|name, member| !member.is_null() || NULLABLE.contains(&name.as_str()));
            is_changed |= members.len() != before;
            for (name, member) in members {
                if DATA.contains(&name.as_str()) {
                    continue;
                }
                if !NAMED.contains(&name.as_str()) {
                    is_changed |= fit(member);
                    continue;
                }
                is_changed |= fill(member);
                for schema in member.as_object_mut().into_iter().flat_map(Map::values_mut) {
                    is_changed |= fill(schema);
                    is_changed |= fit(schema);
                }
            }
        }
        _ => {}
    }
    is_changed
}

/// Replaces an empty list or `null` by an empty object; returns whether the value was replaced.
fn fill(value: &mut Value) -> bool {
    let is_empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    if is_empty {
        *value = Value::Object(Map::new());
    }
    is_empty
}

/// A capability: an object, or an empty list or a flag in its place. `None` if the peer does not have the capability.
pub(crate) struct Capability<T>(pub(crate) Option<T>);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Capability<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Payload::deserialize(deserializer)?;
        let raw = match raw.as_str() {
            "false" | "0" | "null" => return Ok(Self(None)),
            json if matches!(json, "true" | "1") || is_empty_list(json) => Payload::empty_object(),
            _ => raw,
        };
        decode(&raw).map(|value| Self(Some(value)))
    }
}

/// A flag, which may be written as `0` or `1`; `None` for `null`.
pub(crate) struct Flag(pub(crate) Option<bool>);

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FlagVisitor)
    }
}

struct FlagVisitor;

impl Visitor<'_> for FlagVisitor {
    type Value = Flag;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a boolean")
    }

    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<Flag, E> {
        Ok(Flag(Some(flag)))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Flag, E> {
        match number {
            0 => Ok(Flag(Some(false))),
            1 => Ok(Flag(Some(true))),
            _ => Err(E::invalid_value(Unexpected::Unsigned(number), &self)),
        }
    }

    fn visit_unit<E: de::Error>(self) -> Result<Flag, E> {
        Ok(Flag(None))
    }
}
