//! Builds the JSON Schema of a record (feature `schema`).

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// The JSON Schema of a record while it is being built.
#[derive(Debug)]
pub(crate) struct ObjectSchema<'a> {
    generator: &'a mut SchemaGenerator,
    description: &'static str,
    properties: Map<String, Value>,
    required: Vec<Value>,
}

impl<'a> ObjectSchema<'a> {
    pub(crate) fn new(generator: &'a mut SchemaGenerator, description: &'static str) -> Self {
        Self { generator, description, properties: Map::new(), required: Vec::new() }
    }

    pub(crate) fn constant(mut self, name: &'static str, text: &'static str) -> Self {
        self.properties.insert(name.to_owned(), json!({ "const": text }));
        self.required.push(name.into());
        self
    }

    pub(crate) fn member<T: JsonSchema>(
        mut self,
        name: &'static str,
        required: bool,
        description: &'static str,
    ) -> Self {
        let mut schema = self.generator.subschema_for::<T>().to_value();
        if let Some(schema) = schema.as_object_mut() {
            schema.insert("description".to_owned(), tidy(description).into());
        } else {
            schema = json!({ "description": tidy(description) });
        }
        self.properties.insert(name.to_owned(), schema);
        if required {
            self.required.push(name.into());
        }
        self
    }

    /// Returns the schema. Members that the schema does not list are allowed.
    pub(crate) fn finish(self) -> Schema {
        let mut schema = Map::new();
        schema.insert("description".to_owned(), tidy(self.description).into());
        schema.insert("type".to_owned(), "object".into());
        schema.insert("properties".to_owned(), self.properties.into());
        if !self.required.is_empty() {
            schema.insert("required".to_owned(), self.required.into());
        }
        schema.into()
    }
}

fn tidy(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ").trim().to_owned()
}
