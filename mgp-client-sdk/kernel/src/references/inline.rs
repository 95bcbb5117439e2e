//! Replaces references to data in the arguments of calls to servers that do not support them: by the data, or by a URL
//! from which the tool can read the data.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use mgp_security::KernelUrls;
use mgp_toolindex::IndexedTool;
use mgp_types::service::{Call, Params};
use mgp_types::{Object, Payload, RpcError};
use serde::Deserialize;

use super::table::KnownReference;
use super::{Broker, NamedReference, unreadable};
use crate::caller_view::CallerView;

/// The maximum number of references in the arguments of one call. The kernel reads their data one after the other.
const MAX_REFERENCES: usize = 128;

/// An argument that consists of a reference, which the kernel replaces by the data or by a URL of the data.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReferenceArgument {
    data_reference: NamedReference,
}

/// The part of a tool's definition that determines in which form the kernel writes data into an argument.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Definition {
    #[serde(rename = "inputSchema")]
    input_schema: InputSchema,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct InputSchema {
    properties: Object,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Property {
    #[serde(rename = "type")]
    kind: Option<Payload>,
    format: Option<String>,
    #[serde(rename = "contentEncoding")]
    encoding: Option<String>,
}

/// A form in which the kernel writes data into an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A URL from which the tool itself reads the data.
    Url,
    Base64,
    /// The data as text, or in Base64 if they are not text.
    Text,
    Json,
}

impl Property {
    fn form(&self) -> Form {
        let is_text = self.kind.as_ref().is_some_and(|kind| kind.as_str().contains("\"string\""));
        match (is_text, self.format.as_deref(), self.encoding.as_deref()) {
            (true, Some("uri" | "url"), _) => Form::Url,
            (true, _, Some("base64")) => Form::Base64,
            (true, ..) => Form::Text,
            _ => Form::Json,
        }
    }
}

/// Replaces each argument that consists of a reference: by a URL of the data if the tool's schema requires a URL there,
/// otherwise by the data.
pub(super) async fn put_into_arguments(
    broker: &Broker,
    call: &mut Call,
    view: &CallerView,
    tool: &IndexedTool,
) -> Result<(), RpcError> {
    let arguments = call.tool_arguments();
    if !arguments.as_str().contains("\"data_reference\"") {
        return Ok(());
    }
    let mut arguments: Object = arguments.get()?;
    let named: Vec<_> = arguments
        .iter()
        .filter_map(|(name, value)| {
            Some((name.to_owned(), value.get::<ReferenceArgument>().ok()?.data_reference))
        })
        .collect();
    if named.is_empty() {
        return Ok(());
    }
    if named.len() > MAX_REFERENCES {
        let message = format!("the arguments have more than {MAX_REFERENCES} data references");
        return Err(RpcError::invalid_params(message));
    }
    let definition: Definition = serde_json::from_str(tool.definition()).unwrap_or_default();
    let (mut left, mut urls) = (broker.max_inline, Vec::new());
    for (name, reference) in named {
        let known = broker.find(call.cx(), view, &reference)?;
        let property = definition.input_schema.properties.get(&name);
        let property = property.and_then(|property| property.get::<Property>().ok());
        let form = property.unwrap_or_default().form();
        if form == Form::Url {
            urls.push(known.url.clone());
        }
        let value = value(broker, &known, form, &mut left).await?;
        arguments.insert(name, value);
    }
    if !urls.is_empty() {
        call.cx_mut().extensions.insert(KernelUrls(urls));
    }
    let arguments = Payload::of(&arguments)?;
    *call.params_mut() = Params::tool(tool.name(), &arguments);
    Ok(())
}

async fn value(
    broker: &Broker,
    known: &KnownReference,
    form: Form,
    left: &mut u64,
) -> Result<Payload, RpcError> {
    if form == Form::Url {
        return Payload::of(&known.url);
    }
    let reader = broker.reader(known)?.max_bytes(*left);
    let bytes = reader.read_to_end().await.map_err(|error| unreadable(&error))?;
    *left -= bytes.len() as u64;
    argument(form, &known.reference.mime_type, bytes)
}

/// Returns data of this media type in the form of an argument's value.
fn argument(form: Form, mime_type: &str, bytes: Vec<u8>) -> Result<Payload, RpcError> {
    let text = match form {
        Form::Base64 => Err(bytes),
        _ => String::from_utf8(bytes).map_err(std::string::FromUtf8Error::into_bytes),
    };
    match (form, text) {
        (Form::Json, Ok(text)) if is_json(mime_type) => Payload::parse(text).map_err(|error| {
            let what = "the data are not JSON, although their type is `application/json`";
            RpcError::invalid_params(format!("{what}: {}", error.message())).because(error)
        }),
        (_, Ok(text)) => Payload::of(&text),
        (_, Err(bytes)) => Payload::of(&BASE64_STANDARD.encode(bytes)),
    }
}

/// Returns whether data of a media type are one JSON value. Returns `false` for JSON lines.
fn is_json(mime_type: &str) -> bool {
    let essence = mime_type.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_decides_the_form_of_the_data() {
        for (schema, expected) in [
            (r#"{"type":"string"}"#, Form::Text),
            (r#"{"type":["string","null"]}"#, Form::Text),
            (r#"{"type":"string","format":"uri"}"#, Form::Url),
            (r#"{"type":"string","contentEncoding":"base64"}"#, Form::Base64),
            (r#"{"type":"array"}"#, Form::Json),
            ("{}", Form::Json),
        ] {
            let property: Property = serde_json::from_str(schema).unwrap();
            assert_eq!(property.form(), expected, "{schema}");
        }
    }

    #[test]
    fn only_data_of_the_type_of_json_are_parsed() {
        let json = |mime_type: &str, data: &str| argument(Form::Json, mime_type, data.into());
        for (mime_type, data, expected) in [
            ("application/json", "[1]", "[1]"),
            ("Application/JSON; charset=utf-8", "[1]", "[1]"),
            ("application/jsonl", "1\n2", r#""1\n2""#),
            ("text/csv", "1,2", r#""1,2""#),
        ] {
            assert_eq!(json(mime_type, data).unwrap().as_str(), expected, "{mime_type}");
        }
        let refused = json("application/json", "1\n2").unwrap_err();
        assert_eq!(refused.code(), mgp_types::ErrorCode::INVALID_PARAMS, "{refused}");
    }
}
