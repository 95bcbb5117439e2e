//! The types behind the table of methods, as values: what to decode with, what schema to write (feature `schema`).

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A type of a message.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// Its name, without the module.
    pub(crate) name: &'static str,
    /// Decodes a text and encodes it again.
    pub(crate) again: fn(&str) -> serde_json::Result<String>,
    /// Its schema, with the types it refers to.
    pub(crate) schema: fn() -> Schema,
}

impl Shape {
    /// Makes the shape of a type.
    pub(crate) const fn of<T: Serialize + DeserializeOwned + JsonSchema>(
        path: &'static str,
    ) -> Self {
        Self { name: last(path), again: again::<T>, schema: schema::<T> }
    }

    /// The names of its members.
    pub(crate) fn members(&self) -> Vec<String> {
        let schema = (self.schema)();
        let schema = schema.get("properties");
        let properties = schema.and_then(serde_json::Value::as_object);
        properties.map(|members| members.keys().cloned().collect()).unwrap_or_default()
    }
}

/// The types of one method.
pub(crate) struct Shapes {
    /// The marker of the method.
    pub(crate) marker: &'static str,
    /// Its parameters.
    pub(crate) params: Shape,
    /// Its result.
    pub(crate) result: Option<Shape>,
}

fn schema<T: JsonSchema>() -> Schema {
    SchemaGenerator::default().into_root_schema_for::<T>()
}

fn again<T: Serialize + DeserializeOwned>(text: &str) -> serde_json::Result<String> {
    serde_json::to_string(&serde_json::from_str::<T>(text)?)
}

/// What stands after the last colon and space of a path.
const fn last(path: &'static str) -> &'static str {
    let bytes = path.as_bytes();
    let mut at = bytes.len();
    while at > 0 && bytes[at - 1] != b':' && bytes[at - 1] != b' ' {
        at -= 1;
    }
    path.split_at(at).1
}
