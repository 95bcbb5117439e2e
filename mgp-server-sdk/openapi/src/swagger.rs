//! Converts parts of documents of Swagger 2.0 to the form of OpenAPI 3.0, as far as tools need it. Each operation is
//! converted when it is read. A converted copy of the whole document could be very large, because many paths can refer
//! to the same operations.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::reference::resolve;
use crate::request::BodyKind;

const FORM: &str = "application/x-www-form-urlencoded";

const MULTIPART: &str = "multipart/form-data";

/// Returns a path item in the form of OpenAPI 3.0 with only the operation of this method. Its references to definitions
/// need no change, because the definitions stay where they are.
pub(crate) fn item(root: &Value, item: &Value, method: &str) -> Value {
    json!({ method: operation(root, &item["parameters"], &item[method]) })
}

/// Returns the address of the API, from `schemes`, `host` and `basePath`.
pub(crate) fn address(root: &Value) -> String {
    let base = root["basePath"].as_str().unwrap_or("/");
    let Some(host) = root["host"].as_str() else { return base.to_owned() };
    let schemes = root["schemes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_listed = |scheme: &str| schemes.iter().any(|listed| listed == scheme);
    let scheme = if is_listed("http") && !is_listed("https") { "http" } else { "https" };
    format!("{scheme}://{host}/{}", base.trim_start_matches('/'))
}

/// Converts an operation; parameters of the body and of a form become its request body.
fn operation(root: &Value, of_path: &Value, own: &Value) -> Value {
    let kinds = own["consumes"].as_array().or_else(|| root["consumes"].as_array());
    let kinds: Vec<&str> = kinds.into_iter().flatten().filter_map(Value::as_str).collect();
    let mut converted = json!({
        "operationId": own["operationId"], "summary": own["summary"],
        "description": own["description"], "deprecated": own["deprecated"],
    });
    let (mut parameters, mut form, mut known) = (Vec::new(), Vec::new(), HashSet::new());
    let all = [own.get("parameters"), Some(of_path)].into_iter().flatten();
    for value in all.filter_map(Value::as_array).flatten() {
        // A reference without a target is kept; the reader of the operation reports it.
        let one = resolve(root, value).unwrap_or(value);
        if !known.insert((one["name"].as_str(), one["in"].as_str())) {
            continue;
        }
        match one["in"].as_str() {
            Some("formData") => form.push(one),
            Some("body") => {
                let kind = kinds.iter().copied().min_by_key(|kind| BodyKind::preference(kind));
                let kind = kind.unwrap_or("application/json");
                converted["requestBody"] = json!({
                    "description": one["description"], "required": one["required"],
                    "content": { kind: { "schema": one["schema"] } },
                });
            }
            Some(_) => parameters.push(parameter(one)),
            None => parameters.push(value.clone()),
        }
    }
    if !form.is_empty() {
        converted["requestBody"] = form_body(&form, &kinds);
    }
    converted["parameters"] = parameters.into();
    converted
}

fn parameter(one: &Value) -> Value {
    json!({
        "name": one["name"], "in": one["in"], "description": one["description"], "required": one["required"],
        "schema": schema(one), "style": style(one), "explode": one["collectionFormat"] == "multi",
    })
}

/// Returns the style that corresponds to the `collectionFormat` of a parameter. OpenAPI has no style for tabs.
fn style(one: &Value) -> &'static str {
    match one["collectionFormat"].as_str() {
        Some("ssv") => "spaceDelimited",
        Some("pipes") => "pipeDelimited",
        Some("tsv") => "tabDelimited",
        _ => "",
    }
}

/// Returns the schema of a parameter. In Swagger 2.0, the keywords of the schema are members of the parameter itself.
fn schema(one: &Value) -> Value {
    if one["type"] == "file" {
        return json!({ "type": "string", "format": "binary" });
    }
    let members = one.as_object().into_iter().flatten();
    let is_own = |name: &str| ["name", "in", "required", "collectionFormat"].contains(&name);
    let members = members.filter(|(name, _)| !is_own(name));
    members.map(|(name, value)| (name.clone(), value.clone())).collect::<Map<_, _>>().into()
}

fn form_body(form: &[&Value], kinds: &[&str]) -> Value {
    let has_file = form.iter().any(|one| one["type"] == "file");
    let is_multipart = has_file || kinds.contains(&MULTIPART) && !kinds.contains(&FORM);
    let names = || form.iter().filter_map(|one| Some((one["name"].as_str()?, *one)));
    let properties: Map<_, _> = names().map(|(name, one)| (name.to_owned(), schema(one))).collect();
    let encoding: Map<_, _> = names()
        .map(|(name, one)| {
            let explode = one["collectionFormat"] == "multi";
            (name.to_owned(), json!({ "style": style(one), "explode": explode }))
        })
        .collect();
    let required: Vec<&str> =
        names().filter(|(_, one)| one["required"] == true).map(|(name, _)| name).collect();
    let media = if is_multipart { MULTIPART } else { FORM };
    json!({ "required": !required.is_empty(), "content": { media: {
        "schema": { "type": "object", "properties": properties, "required": required }, "encoding": encoding,
    } } })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::{Api, Credentials};

    #[test]
    fn the_items_of_a_list_are_separated_as_the_parameter_prescribes() {
        let list = |name: &str, place: &str, format: &str| {
            json!({
                "name": name, "in": place, "required": true, "type": "array",
                "items": { "type": "string" }, "collectionFormat": format,
            })
        };
        let parameters = [
            list("p", "path", "pipes"),
            list("s", "query", "ssv"),
            list("t", "query", "tsv"),
            list("X-S", "header", "ssv"),
            list("X-T", "header", "tsv"),
            list("f", "formData", "pipes"),
            list("m", "formData", "multi"),
        ];
        let paths = json!({ "/x/{p}": { "post": { "parameters": parameters } } });
        let document = json!({ "swagger": "2.0", "paths": paths }).to_string();
        let api = Api::parse(&document).unwrap();
        let items = json!(["a", "b"]);
        let arguments = json!({
            "p": items, "s": items, "t": items, "X-S": items, "X-T": items,
            "body": { "f": items, "m": items },
        });
        let arguments = arguments.as_object().unwrap();
        let operation = &api.operations()[0];
        let sent = operation.request("https://x.org", &Credentials::default(), arguments).unwrap();
        assert_eq!(sent.url, "https://x.org/x/a%7Cb?s=a%20b&t=a%09b");
        let has = |own: &str, text: &str| {
            sent.headers.iter().any(|(name, value)| name == own && value == text)
        };
        assert!(has("x-s", "a b") && has("x-t", "a\tb"), "{:?}", sent.headers);
        assert_eq!(String::from_utf8(sent.body).unwrap(), "f=a%7Cb&m=a&m=b");
    }
}
