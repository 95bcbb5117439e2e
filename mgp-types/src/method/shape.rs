//! The types behind the table of methods, as values (feature `schema`).

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A type of a message.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// The name, without the module.
    pub(crate) name: &'static str,
    /// A function that decodes a text and encodes it again.
    pub(crate) again: fn(&str) -> serde_json::Result<String>,
    /// A function that returns the schema, with the types it refers to.
    pub(crate) schema: fn() -> Schema,
}

impl Shape {
    /// Creates the shape of a type.
    pub(crate) const fn of<T: Serialize + DeserializeOwned + JsonSchema>(
        path: &'static str,
    ) -> Self {
        Self { name: last(path), again: again::<T>, schema: schema::<T> }
    }

    /// Returns the names of the members.
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
    /// The parameters.
    pub(crate) params: Shape,
    /// The result.
    pub(crate) result: Option<Shape>,
}

fn schema<T: JsonSchema>() -> Schema {
    SchemaGenerator::default().into_root_schema_for::<T>()
}

fn again<T: Serialize + DeserializeOwned>(text: &str) -> serde_json::Result<String> {
    serde_json::to_string(&serde_json::from_str::<T>(text)?)
}

const fn last(path: &'static str) -> &'static str {
    let bytes = path.as_bytes();
    let mut at = bytes.len();
    while at > 0 && bytes[at - 1] != b':' && bytes[at - 1] != b' ' {
        at -= 1;
    }
    path.split_at(at).1
}
