//! Converts calls of tools to requests to an API.

use std::collections::HashMap;

use mgp_types::service::FetchRequest;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

use crate::operation::Operation;

/// The characters that are percent-encoded: all except those that are allowed everywhere (RFC 3986 §2.3).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The secret headers and query parameters that a server adds to each of its requests to the API, such as API keys.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Credentials {
    /// The headers of the request, by lower-case name.
    pub headers: Vec<(String, String)>,
    /// The query parameters of the request.
    pub query: Vec<(String, String)>,
}

mgp_types::opaque_debug!(Credentials);

/// An argument and its place in a request.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    pub(crate) argument: String,
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) style: Style,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Path,
    Query,
    Header,
    Cookie,
}

/// The form in which a list or an object is written to the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// All parts in one text, separated by this text.
    Joined(&'static str),
    /// Each item or member as a separate `name=value` pair.
    Exploded,
    /// Each member as `name[member]=value`.
    Deep,
    /// The whole value as one JSON text.
    Json,
}

/// The parts of a request into which the arguments of a call have been written.
#[derive(Default)]
struct Placed {
    path: String,
    query: Vec<String>,
    headers: Vec<(String, String)>,
    cookies: Vec<String>,
}

/// The body of a request.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    pub(crate) argument: String,
    pub(crate) kind: BodyKind,
    pub(crate) media: String,
    /// The styles that the document sets for members of a form, by name.
    pub(crate) encoding: HashMap<String, Style>,
}

/// The kinds of bodies that a tool can send, in order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyKind {
    Json,
    Form,
    Text,
}

impl Style {
    pub(crate) fn read(place: Place, parameter: &Value) -> Self {
        let explodes = parameter["explode"].as_bool();
        match (place, parameter["style"].as_str()) {
            (Place::Query, Some("deepObject")) => Self::Deep,
            (Place::Query, Some("spaceDelimited")) if explodes != Some(true) => Self::Joined("%20"),
            (Place::Query, Some("pipeDelimited")) if explodes != Some(true) => Self::Joined("%7C"),
            (Place::Query, _) if explodes != Some(false) => Self::Exploded,
            _ => Self::Joined(","),
        }
    }
}

impl BodyKind {
    pub(crate) fn read(media: &str) -> Option<Self> {
        let essence = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match essence.as_str() {
            "application/x-www-form-urlencoded" => Some(Self::Form),
            "application/json" | "*/*" => Some(Self::Json),
            json if json.ends_with("+json") => Some(Self::Json),
            text if text.starts_with("text/") => Some(Self::Text),
            _ => None,
        }
    }
}

impl Operation {
    /// Builds the request for a call; the error is a message for the model.
    pub(crate) fn request(
        &self,
        base: &str,
        credentials: &Credentials,
        arguments: &Map<String, Value>,
    ) -> Result<FetchRequest, String> {
        let Placed { path, mut query, mut headers, cookies } = self.place(arguments)?;
        query.extend(credentials.query.iter().map(|(name, value)| pair(name, value)));
        let mark = if query.is_empty() { "" } else { "?" };
        let url = format!("{}{path}{mark}{}", base.trim_end_matches('/'), query.join("&"));
        let mut request = FetchRequest::get(url);
        request.method = self.method;
        request.headers.push(("accept".into(), "application/json, text/*;q=0.9, */*;q=0.5".into()));
        if !cookies.is_empty() {
            headers.push(("cookie".to_owned(), cookies.join("; ")));
        }
        // The operator's headers in `credentials` replace headers of the same name that a caller sends.
        headers.retain(|(name, _)| !credentials.headers.iter().any(|(own, _)| own == name));
        headers.extend(credentials.headers.iter().cloned());
        request.headers.extend(headers.into_iter().map(|(name, value)| (name.into(), value)));
        if let Some(body) = &self.body
            && let Some(value) = arguments.get(&body.argument)
        {
            request.body = body.write(value);
            request.headers.push(("content-type".into(), body.media_type().to_owned()));
        }
        Ok(request)
    }

    /// Writes each argument to its place in the request.
    fn place(&self, arguments: &Map<String, Value>) -> Result<Placed, String> {
        let mut placed = Placed { path: self.path.clone(), ..Placed::default() };
        for parameter in &self.parameters {
            let Some(value) = arguments.get(&parameter.argument).filter(|value| !value.is_null())
            else {
                continue;
            };
            let Parameter { name, place, style, .. } = parameter;
            match place {
                Place::Path => {
                    let text = joined(value, *style, &|text| encoded(text));
                    // Refuse an empty value, or one of dots only, because such a path segment would lead to another
                    // path.
                    if text.is_empty() || text.chars().all(|c| c == '.') {
                        return Err(format!(
                            "`{}` must not be empty or of dots",
                            parameter.argument
                        ));
                    }
                    placed.path = placed.path.replace(&format!("{{{name}}}"), &text);
                }
                Place::Query => pairs(name, value, *style, &mut placed.query),
                Place::Header => {
                    let text = joined(value, *style, &str::to_owned);
                    placed.headers.push((name.to_ascii_lowercase(), text));
                }
                Place::Cookie => {
                    let text = joined(value, *style, &|text| encoded(text));
                    placed.cookies.push(format!("{}={text}", encoded(name)));
                }
            }
        }
        if placed.path.contains(['{', '}']) {
            return Err("an argument for the path is missing".to_owned());
        }
        Ok(placed)
    }
}

impl Body {
    fn media_type(&self) -> &str {
        if self.media.starts_with("*/") { "application/json" } else { &self.media }
    }

    fn write(&self, value: &Value) -> Vec<u8> {
        match (self.kind, value) {
            (BodyKind::Form, Value::Object(members)) => {
                let mut form = Vec::new();
                for (name, value) in members {
                    // Without a style, an object is one JSON text (OpenAPI 3.1 §4.8.15), so that its members do not
                    // override those of the form.
                    let usual = if value.is_object() { Style::Json } else { Style::Exploded };
                    let style = self.encoding.get(name).copied().unwrap_or(usual);
                    pairs(name, value, style, &mut form);
                }
                form.join("&").into_bytes()
            }
            (BodyKind::Text, Value::String(text)) => text.clone().into_bytes(),
            (_, value) => value.to_string().into_bytes(),
        }
    }
}

/// Writes a value as one text: the items of a list, or the names and values of an object, are joined by a separator.
fn joined(value: &Value, style: Style, encode: &dyn Fn(&str) -> String) -> String {
    let separator = match style {
        Style::Joined(separator) => separator,
        Style::Json => return encode(&value.to_string()),
        _ => ",",
    };
    let parts: Vec<String> = match value {
        Value::Array(items) => items.iter().map(|item| encode(&text(item))).collect(),
        Value::Object(members) => {
            let parts =
                members.iter().flat_map(|(name, value)| [encode(name), encode(&text(value))]);
            parts.collect()
        }
        value => vec![encode(&text(value))],
    };
    parts.join(separator)
}

/// Writes a value as name-value pairs of a query or form.
fn pairs(name: &str, value: &Value, style: Style, out: &mut Vec<String>) {
    match (style, value) {
        (Style::Exploded, Value::Array(items)) => {
            out.extend(items.iter().map(|item| pair(name, &text(item))));
        }
        (Style::Exploded, Value::Object(members)) => {
            out.extend(members.iter().map(|(name, value)| pair(name, &text(value))));
        }
        (Style::Deep, Value::Object(members)) => {
            let deep = |member: &str| format!("{}[{}]", encoded(name), encoded(member));
            let pairs = members.iter().map(|(member, value)| (deep(member), encoded(&text(value))));
            out.extend(pairs.map(|(name, value)| format!("{name}={value}")));
        }
        (style, value) => {
            let value = joined(value, style, &|text| encoded(text));
            out.push(format!("{}={value}", encoded(name)));
        }
    }
}

fn pair(name: &str, value: &str) -> String {
    format!("{}={}", encoded(name), encoded(value))
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        value => value.to_string(),
    }
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}
