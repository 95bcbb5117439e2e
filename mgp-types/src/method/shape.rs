//! Function pointers to the codec and the JSON Schema of each message type (feature `schema`).

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The functions that decode, encode and describe the messages of one type.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    /// Decodes JSON as this type and encodes the value again.
    pub(crate) reencode: fn(&str) -> serde_json::Result<String>,
    /// Returns the JSON Schema, with the definitions to which it refers.
    pub(crate) schema: fn() -> Schema,
}

impl Shape {
    pub(crate) const fn of<T: Serialize + DeserializeOwned + JsonSchema>(
        path: &'static str,
    ) -> Self {
        Self { name: last(path), reencode: reencode::<T>, schema: schema::<T> }
    }

    pub(crate) fn members(&self) -> Vec<String> {
        let schema = (self.schema)();
        let schema = schema.get("properties");
        let properties = schema.and_then(serde_json::Value::as_object);
        properties.map(|members| members.keys().cloned().collect()).unwrap_or_default()
    }
}

pub(crate) struct Shapes {
    pub(crate) marker: &'static str,
    pub(crate) params: Shape,
    pub(crate) result: Option<Shape>,
}

fn schema<T: JsonSchema>() -> Schema {
    SchemaGenerator::default().into_root_schema_for::<T>()
}

fn reencode<T: Serialize + DeserializeOwned>(text: &str) -> serde_json::Result<String> {
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
