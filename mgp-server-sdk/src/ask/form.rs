//! Creates a form from a flat struct, in the subset of JSON Schema that clients can show (MCP elicitation).

use mgp_types::{RawObject, RpcError};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::request::declared_fields;

/// Returns the schema of the form for a type. The user sees the fields in the order of their declaration.
///
/// # Errors
/// −32603 (internal error) if the type is not a struct of strings, numbers, booleans, enums and lists of enums.
pub(super) fn of<T: DeserializeOwned + JsonSchema>() -> Result<RawObject, RpcError> {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let properties = match schema.get("properties") {
        Some(Value::Object(properties)) => properties.clone(),
        None if schema.get("type").is_some_and(|kind| kind == "object") => Map::new(),
        _ => return Err(RpcError::internal("a form must be a struct with named fields")),
    };
    let mut fields = Vec::with_capacity(properties.len());
    for (name, property) in properties {
        let field = field(property).ok_or_else(|| {
            RpcError::internal(format!(
                "a form must be flat: `{name}` must be a string, a number, a boolean, an enum or a list of enums"
            ))
        })?;
        fields.push((name, field));
    }
    let declared = declared_fields::<T>();
    fields.sort_by_key(|(name, _)| declared.iter().position(|known| known == name));
    let required = schema.get("required");
    RawObject::of(&Form { kind: "object", properties: Fields(fields), required })
}

#[derive(Serialize)]
struct Form<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    properties: Fields,
    #[serde(skip_serializing_if = "Option::is_none")]
    required: Option<&'a Value>,
}

struct Fields(Vec<(String, Value)>);

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, field)| (name, field)))
    }
}

/// The keywords that clients support in the schema of a field, in addition to those for choices.
#[rustfmt::skip]
const KEYWORDS: [&str; 13] = [
    "type", "title", "description", "default", "minLength", "maxLength", "pattern", "format",
    "minimum", "maximum", "minItems", "maxItems", "enum",
];

/// The string formats that clients support.
const FORMATS: [&str; 4] = ["email", "uri", "date", "date-time"];

fn field(schema: Value) -> Option<Value> {
    let Value::Object(schema) = without_null(schema) else { return None };
    let described = |mut field: Map<String, Value>| {
        for member in ["title", "description", "default"] {
            if let Some(value) = schema.get(member) {
                field.insert(member.to_owned(), value.clone());
            }
        }
        Some(Value::Object(field))
    };
    if let Some(choices) = choices(&schema) {
        let mut field = object(json!({ "type": "string" }));
        let (member, words) = match choices {
            Choices::Plain(words) => ("enum", words),
            Choices::Titled(words) => ("oneOf", words),
        };
        // Before revision 2025-11-25, the titles of the choices were in `enumNames`, so this member is kept for older
        // clients.
        if let Some(names @ Value::Array(titles)) = schema.get("enumNames")
            && words.as_array().is_some_and(|words| member == "enum" && words.len() == titles.len())
        {
            field.insert("enumNames".to_owned(), names.clone());
        }
        field.insert(member.to_owned(), words);
        return described(field);
    }
    match schema.get("type")?.as_str()? {
        "string" | "number" | "integer" | "boolean" => {
            let mut field = schema.clone();
            field.retain(|name, value| {
                KEYWORDS.contains(&name.as_str())
                    && (name != "format"
                        || value.as_str().is_some_and(|text| FORMATS.contains(&text)))
            });
            Some(Value::Object(field))
        }
        "array" => {
            let items = match choices(schema.get("items")?.as_object()?)? {
                Choices::Plain(words) => json!({ "type": "string", "enum": words }),
                Choices::Titled(words) => json!({ "anyOf": words }),
            };
            let mut field = object(json!({ "type": "array", "items": items }));
            for member in ["minItems", "maxItems"] {
                if let Some(value) = schema.get(member) {
                    field.insert(member.to_owned(), value.clone());
                }
            }
            described(field)
        }
        _ => None,
    }
}

enum Choices {
    Plain(Value),
    /// The choices with a title for each, as the JSON of the schema.
    Titled(Value),
}

fn choices(schema: &Map<String, Value>) -> Option<Choices> {
    if let Some(words @ Value::Array(list)) = schema.get("enum") {
        return list.iter().all(Value::is_string).then(|| Choices::Plain(words.clone()));
    }
    let choices = schema.get("oneOf").or_else(|| schema.get("anyOf"))?.as_array()?;
    let mut titled = Vec::new();
    for choice in choices {
        // `schemars` combines all variants without a description into one `enum`, so add each of its words as a choice
        // of its own.
        if let Some(Value::Array(plain)) = choice.get("enum") {
            for word in plain {
                titled.push(json!({ "const": word.as_str()?, "title": word }));
            }
            continue;
        }
        let word = choice.get("const")?.as_str()?;
        let title = choice.get("title").or_else(|| choice.get("description"));
        titled
            .push(json!({ "const": word, "title": title.and_then(Value::as_str).unwrap_or(word) }));
    }
    Some(Choices::Titled(Value::Array(titled)))
}

/// Removes `null` from the values that the schema of a field permits, because clients do not support it. A field is
/// optional if `required` does not list it.
fn without_null(mut schema: Value) -> Value {
    let Some(members) = schema.as_object_mut() else { return schema };
    if let Some(Value::Array(kinds)) = members.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [kind] = kinds.as_slice() {
            let kind = kind.clone();
            members.insert("type".to_owned(), kind);
        }
    }
    if let Some(Value::Array(words)) = members.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
    if members.get("default").is_some_and(Value::is_null) {
        members.remove("default");
    }
    if let Some(Value::Array(choices)) = members.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
        if let [Value::Object(only)] = choices.as_slice() {
            let mut only = only.clone();
            members.remove("anyOf");
            only.extend(std::mem::take(members));
            return Value::Object(only);
        }
    }
    schema
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[track_caller]
    fn check<T: DeserializeOwned + JsonSchema>(expected: &Value) {
        assert_eq!(of::<T>().unwrap().get::<Value>().unwrap(), *expected);
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Plain {
        Red,
        Green,
    }

    #[derive(Deserialize, JsonSchema)]
    enum Titled {
        /// The first
        A,
        B,
    }

    #[test]
    fn fields_are_what_clients_can_show() {
        #[derive(Deserialize, JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        struct Form {
            /// Full name
            name: String,
            #[serde(default = "thirty")]
            age: u32,
            score: Option<f64>,
            #[schemars(email)]
            mail: Option<String>,
            verified: bool,
        }
        fn thirty() -> u32 {
            30
        }
        check::<Form>(&json!({
            "type": "object",
            "properties": {
                "name": { "type": "string", "description": "Full name" },
                "age": { "type": "integer", "minimum": 0, "default": 30 },
                "score": { "type": "number" },
                "mail": { "type": "string", "format": "email" },
                "verified": { "type": "boolean" },
            },
            "required": ["name", "verified"],
        }));
    }

    #[test]
    fn fields_keep_the_order_of_declaration() {
        #[derive(Deserialize, JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        struct Form {
            zip: String,
            city: String,
            after: Option<String>,
        }
        let form = of::<Form>().unwrap();
        let text = form.as_payload().as_str();
        let places =
            ["\"zip\":{", "\"city\":{", "\"after\":{"].map(|name| text.find(name).unwrap());
        assert!(places.is_sorted(), "{text}");
    }

    #[test]
    fn choices_are_plain_or_titled_single_or_many() {
        #[derive(Deserialize, JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        struct Form {
            plain: Plain,
            maybe: Option<Plain>,
            titled: Titled,
            many: Vec<Plain>,
            many_titled: Vec<Titled>,
        }
        let titled =
            json!([{ "const": "A", "title": "The first" }, { "const": "B", "title": "B" }]);
        let mut sorted = of::<Form>().unwrap().get::<Value>().unwrap();
        for place in ["/properties/titled/oneOf", "/properties/many_titled/items/anyOf"] {
            let words = sorted.pointer_mut(place).unwrap().as_array_mut().unwrap();
            words.sort_by_key(|word| word["const"].to_string());
        }
        let plain = json!({ "type": "string", "enum": ["red", "green"] });
        assert_eq!(
            sorted,
            json!({
                "type": "object",
                "properties": {
                    "plain": plain,
                    "maybe": plain,
                    "titled": { "type": "string", "oneOf": titled },
                    "many": { "type": "array", "items": plain },
                    "many_titled": { "type": "array", "items": { "anyOf": titled } },
                },
                "required": ["plain", "titled", "many", "many_titled"],
            })
        );
    }

    #[test]
    fn choices_may_have_titles_of_the_old_kind() {
        #[derive(Deserialize, JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        struct Form {
            #[schemars(extend("enumNames" = ["Rot", "Grün"]))]
            old: Plain,
            #[schemars(extend("enumNames" = ["one too few"]))]
            wrong: Plain,
        }
        let words = json!(["red", "green"]);
        check::<Form>(&json!({
            "type": "object",
            "properties": {
                "old": { "type": "string", "enum": words, "enumNames": ["Rot", "Grün"] },
                "wrong": { "type": "string", "enum": words },
            },
            "required": ["old", "wrong"],
        }));
    }

    #[test]
    fn defaults_of_each_kind_are_kept() {
        #[derive(Deserialize, JsonSchema, serde::Serialize)]
        #[serde(default)]
        struct Form {
            name: String,
            age: i64,
            score: f64,
            colour: Colour,
            verified: bool,
            many: Vec<Colour>,
        }
        #[derive(Clone, Copy, Deserialize, JsonSchema, serde::Serialize)]
        #[serde(rename_all = "lowercase")]
        enum Colour {
            Red,
            Green,
        }
        impl Default for Form {
            fn default() -> Self {
                Self {
                    name: "Ann".to_owned(),
                    age: 30,
                    score: 95.5,
                    colour: Colour::Red,
                    verified: true,
                    many: vec![Colour::Green],
                }
            }
        }
        let words = json!({ "type": "string", "enum": ["red", "green"] });
        check::<Form>(&json!({
            "type": "object",
            "properties": {
                "name": { "type": "string", "default": "Ann" },
                "age": { "type": "integer", "default": 30 },
                "score": { "type": "number", "default": 95.5 },
                "colour": { "type": "string", "enum": ["red", "green"], "default": "red" },
                "verified": { "type": "boolean", "default": true },
                "many": { "type": "array", "items": words, "default": ["green"] },
            },
        }));
    }

    #[test]
    fn what_is_not_flat_is_refused_by_name() {
        #[derive(Deserialize, JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        struct Inner {
            x: u8,
        }
        #[derive(Deserialize, JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        struct Form {
            inner: Inner,
        }
        assert!(of::<Form>().unwrap_err().message().contains("`inner`"));
        assert!(of::<Vec<String>>().is_err());
    }
}
