//! Converts calls of tools to requests to an API.

use std::cmp::Reverse;
use std::collections::HashMap;

use mgp_types::clip;
use mgp_types::service::FetchRequest;
use percent_encoding::{
    AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode,
};
use serde_json::{Map, Value};

use crate::operation::{Operation, sent_path};

/// The characters that are percent-encoded: all characters except the unreserved characters (RFC 3986 §2.3).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The characters that are percent-encoded in the path of a document, because a URL cannot contain them.
const NOT_IN_PATH: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'\\').add(b'^').add(b'`').add(b'|');

/// The headers that are sent if neither the credentials nor the arguments set them.
const USUAL_HEADERS: &[(&str, &str)] = &[
    ("accept", "application/json, text/*;q=0.9, */*;q=0.5"),
    // The compressions that `decompressed` can read.
    ("accept-encoding", "gzip, deflate"),
    // Some APIs refuse requests without this header, so it is always sent.
    ("user-agent", concat!("mgp-openapi/", env!("CARGO_PKG_VERSION"))),
];

/// The minimum length, in bytes, of a credential that is redacted in texts. Redacting a shorter credential would also
/// replace parts of ordinary words.
const MIN_SECRET: usize = 6;

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
    /// All items, or all names and values, in one text, separated by this separator.
    Joined(&'static str),
    /// Each item of a list or member of an object as a separate `name=value` pair.
    Exploded,
    /// All items in one text, separated by commas; each member of an object is written as `member=value`.
    Members,
    /// Each member as `name[member]=value`, and each item of a list as `name[0]=value`.
    Deep,
    /// The whole value as one JSON text.
    Json,
}

/// The path, query, headers and cookies of a request, into which the arguments of a call are written.
#[derive(Default)]
struct Placed {
    path: String,
    query: Vec<String>,
    headers: Vec<(String, String)>,
    cookies: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Body {
    pub(crate) argument: String,
    pub(crate) kind: BodyKind,
    pub(crate) media: String,
    /// The styles that the document sets for members of a form, by the name of the member.
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
        let style = parameter["style"].as_str().unwrap_or_default();
        if let Some(separator) = separator(place, style).filter(|_| explodes != Some(true)) {
            return Self::Joined(separator);
        }
        match (place, style) {
            (Place::Query, "deepObject") => Self::Deep,
            (Place::Query, _) if explodes != Some(false) => Self::Exploded,
            (Place::Path | Place::Header, _) if explodes == Some(true) => Self::Members,
            _ => Self::Joined(","),
        }
    }
}

impl BodyKind {
    pub(crate) fn read(media: &str) -> Option<Self> {
        match essence(media).as_str() {
            "application/x-www-form-urlencoded" => Some(Self::Form),
            "application/json" | "text/json" | "application/*" | "*/*" => Some(Self::Json),
            json if json.ends_with("+json") => Some(Self::Json),
            text if text.starts_with("text/") => Some(Self::Text),
            _ => None,
        }
    }

    /// Returns a sort key by which the media types of a body are ordered; the lowest is used. Plain JSON comes first.
    /// JSON Patch, whose bodies are lists of changes, comes after the other kinds of JSON.
    pub(crate) fn preference(media: &str) -> (u8, u8) {
        let rank = match essence(media).as_str() {
            "application/json" => 0,
            "application/json-patch+json" => 2,
            _ => 1,
        };
        (Self::read(media).map_or(u8::MAX, |kind| kind as u8), rank)
    }
}

/// Returns the separator of a style that has its own. In Swagger 2.0, not only the query has such styles.
fn separator(place: Place, style: &str) -> Option<&'static str> {
    let is_encoded = place != Place::Header;
    match style {
        "spaceDelimited" => Some(if is_encoded { "%20" } else { " " }),
        "pipeDelimited" => Some(if is_encoded { "%7C" } else { "|" }),
        "tabDelimited" => Some(if is_encoded { "%09" } else { "\t" }),
        _ => None,
    }
}

/// Returns a media type in lower case, without its parameters.
fn essence(media: &str) -> String {
    media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

impl Credentials {
    /// Returns whether the credentials contain a value for a parameter, so that the tool needs no argument for it.
    fn fill(&self, Parameter { name, place, .. }: &Parameter) -> bool {
        let has_header =
            |name: &str| self.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        match place {
            Place::Path => false,
            Place::Query => self.query.iter().any(|(own, _)| own == name),
            Place::Header => has_header(name),
            Place::Cookie => has_header("cookie"),
        }
    }

    /// Returns a text with the values of the credentials replaced by `…`. Also replaces the value of a header without
    /// its scheme, e.g. `Bearer`, and each value in the forms that it has in a URL and in JSON with escaped slashes.
    pub(crate) fn redacted(&self, text: &str) -> String {
        let values = self.headers.iter().chain(&self.query).flat_map(|(_, value)| {
            let value = value.trim();
            [value, value.split_once(' ').map_or(value, |(_, key)| key.trim())]
        });
        let long = values.filter(|value| value.len() >= MIN_SECRET);
        let forms = |value: &str| [value.to_owned(), encoded(value), value.replace('/', "\\/")];
        let mut secrets: Vec<String> = long.flat_map(forms).collect();
        // Replace the longest value first, because a shorter value may be a part of it.
        secrets.sort_by_key(|secret| Reverse(secret.len()));
        secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret, "…"))
    }
}

impl Operation {
    /// Removes the parameters that the credentials fill, so that no caller is asked for a key.
    pub(crate) fn without(mut self, credentials: &Credentials) -> Self {
        let (filled, left): (Vec<_>, Vec<_>) =
            self.parameters.into_iter().partition(|parameter| credentials.fill(parameter));
        self.parameters = left;
        for Parameter { argument, .. } in filled {
            if let Some(Value::Object(properties)) = self.schema.get_mut("properties") {
                properties.remove(&argument);
            }
            if let Some(Value::Array(required)) = self.schema.get_mut("required") {
                required.retain(|name| *name != argument);
            }
        }
        self
    }

    /// Builds the request for a call of the tool; the error is a message for the model.
    pub(crate) fn request(
        &self,
        base: &str,
        credentials: &Credentials,
        arguments: &Map<String, Value>,
    ) -> Result<FetchRequest, String> {
        self.check(arguments)?;
        let Placed { path, mut query, mut headers, cookies } = self.place(arguments)?;
        // Drop the values that the caller sent for query parameters and headers that the credentials set.
        query.retain(|sent| {
            let name = sent.split('=').next().unwrap_or_default();
            let is_own = |own: &str| percent_decode_str(name).eq(own.bytes());
            !credentials.query.iter().any(|(own, _)| is_own(own))
        });
        query.extend(credentials.query.iter().map(|(name, value)| pair(name, value)));
        let mark = if query.is_empty() { "" } else { "?" };
        let url = format!("{}{path}{mark}{}", base.trim_end_matches('/'), query.join("&"));
        let mut request = FetchRequest::get(url);
        request.method = self.method;
        if !cookies.is_empty() {
            headers.push(("cookie".to_owned(), cookies.join("; ")));
        }
        headers.retain(|(name, _)| !credentials.headers.iter().any(|(own, _)| own == name));
        headers.extend(credentials.headers.iter().cloned());
        let is_set = |name: &str| headers.iter().any(|(own, _)| own == name);
        let usual = USUAL_HEADERS.iter().filter(|(name, _)| !is_set(name));
        request.headers = usual.map(|&(name, value)| (name.into(), value.to_owned())).collect();
        if let Some(body) = &self.body
            && let Some(value) = arguments.get(&body.argument)
            && (!value.is_null() || self.may_be_null(&body.argument))
        {
            request.body = body.write(value)?;
            if !is_set("content-type") {
                request.headers.push(("content-type".into(), body.media_type().to_owned()));
            }
        }
        if request.body.is_empty() && ["POST", "PUT", "PATCH"].contains(&self.method) {
            // Some servers refuse a request without body if it lacks this header (RFC 9110 §8.6), so add it.
            request.headers.push(("content-length".into(), "0".to_owned()));
        }
        request.headers.extend(headers.into_iter().map(|(name, value)| (name.into(), value)));
        Ok(request)
    }

    /// Returns whether `null` is sent for an argument: only for a required body in JSON. For any other argument, `null`
    /// means that it is absent.
    fn may_be_null(&self, argument: &str) -> bool {
        let mut required = self.schema["required"].as_array().into_iter().flatten();
        let body = self.body.as_ref().filter(|body| body.argument == argument);
        body.is_some_and(|body| body.kind == BodyKind::Json)
            && required.any(|name| name == argument)
    }

    /// Checks that the tool has each of the arguments, and that no required argument is missing.
    fn check(&self, arguments: &Map<String, Value>) -> Result<(), String> {
        let properties = self.schema["properties"].as_object();
        let is_known = |name: &str| properties.is_some_and(|all| all.contains_key(name));
        if let Some(unknown) = arguments.keys().find(|name| !is_known(name)) {
            let hint = match &self.body {
                Some(body) => format!("; put members of the body into `{}`", body.argument),
                None => String::new(),
            };
            return Err(format!("unknown argument `{}`{hint}", clip(unknown, 80)));
        }
        let is_missing = |name: &&str| {
            arguments.get(*name).is_none_or(|value| value.is_null() && !self.may_be_null(name))
        };
        let required = self.schema["required"].as_array().into_iter().flatten();
        match required.filter_map(Value::as_str).find(is_missing) {
            Some(missing) => Err(format!("the argument `{missing}` is missing")),
            None => Ok(()),
        }
    }

    /// Writes each argument to its place in the request.
    fn place(&self, arguments: &Map<String, Value>) -> Result<Placed, String> {
        let mut placed = Placed { path: sent_path(&self.path).to_owned(), ..Placed::default() };
        for parameter in &self.parameters {
            let Some(value) = arguments.get(&parameter.argument).filter(|value| !value.is_null())
            else {
                continue;
            };
            let Parameter { name, place, style, .. } = parameter;
            if *place != Place::Path && is_undefined(value, *style) {
                continue;
            }
            match place {
                Place::Path => {
                    if leads_elsewhere(&joined(value, *style, &str::to_owned)) {
                        return Err(format!(
                            "`{}` must not be empty, and no part between `/` may consist of dots",
                            parameter.argument
                        ));
                    }
                    let text = joined(value, *style, &|text| encoded(text));
                    placed.path = placed.path.replace(&format!("{{{name}}}"), &text);
                }
                Place::Query => pairs(name, value, *style, &mut placed.query),
                Place::Header => {
                    let text = joined(value, *style, &str::to_owned);
                    if text.contains(|c: char| c.is_control() && c != '\t') {
                        return Err(format!(
                            "`{}` must not contain control characters",
                            parameter.argument
                        ));
                    }
                    placed.headers.push((name.to_ascii_lowercase(), text));
                }
                Place::Cookie => {
                    let text = joined(value, *style, &|text| encoded(text));
                    placed.cookies.push(format!("{}={text}", encoded(name)));
                }
            }
        }
        placed.path = utf8_percent_encode(&placed.path, NOT_IN_PATH).to_string();
        if let Some((path, query)) = placed.path.split_once('?') {
            // A pair such as `lat={lat}` in the query of the path is left out, because the query parameter that it
            // names is sent anyway.
            let fixed = query.split('&').filter(|one| !one.is_empty() && !one.contains(['{', '}']));
            let mut query: Vec<String> = fixed.map(str::to_owned).collect();
            query.append(&mut placed.query);
            placed.query = query;
            placed.path = path.to_owned();
        }
        if placed.path.contains(['{', '}']) {
            return Err("an argument for the path is missing".to_owned());
        }
        Ok(placed)
    }
}

impl Body {
    fn media_type(&self) -> &str {
        match self.kind {
            BodyKind::Text if self.media.contains('*') => "text/plain",
            _ if self.media.contains('*') => "application/json",
            _ => &self.media,
        }
    }

    fn write(&self, value: &Value) -> Result<Vec<u8>, String> {
        Ok(match (self.kind, value) {
            (BodyKind::Form, Value::Object(members)) => {
                let mut form = Vec::new();
                for (name, value) in members {
                    // By default, an object is written as one JSON text (OpenAPI 3.1 §4.8.15), so that its members are
                    // not confused with those of the form.
                    let usual = if value.is_object() { Style::Json } else { Style::Exploded };
                    let style = self.encoding.get(name).copied().unwrap_or(usual);
                    pairs(name, value, style, &mut form);
                }
                form.join("&").into_bytes()
            }
            (BodyKind::Form, _) => return Err(format!("`{}` must be an object", self.argument)),
            (BodyKind::Text, Value::String(text)) => text.clone().into_bytes(),
            (_, value) => value.to_string().into_bytes(),
        })
    }
}

/// Returns whether a value in a path could lead to another operation: all of its parts are empty, or one of them
/// consists of dots, e.g. in `../admin`. Some proxies decode `%2F` and resolve such parts, and some servers ignore the
/// rest of a part after a `;`.
fn leads_elsewhere(value: &str) -> bool {
    let parts = || value.split(['/', '\\']).map(|part| part.split(';').next().unwrap_or_default());
    let is_dots = |part: &str| !part.is_empty() && part.chars().all(|c| c == '.');
    parts().all(str::is_empty) || parts().any(is_dots)
}

/// Writes a value as one text: as JSON, or with the items of a list, or the names and values of an object, joined by a
/// separator.
fn joined(value: &Value, style: Style, encode: &dyn Fn(&str) -> String) -> String {
    let separator = match style {
        Style::Joined(separator) => separator,
        Style::Json => return encode(&value.to_string()),
        _ => ",",
    };
    let parts: Vec<String> = match value {
        Value::Object(members) if style == Style::Members => {
            let member = |(name, value): (&String, &Value)| {
                format!("{}={}", encode(name), encode(&text(value)))
            };
            members.iter().map(member).collect()
        }
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

/// Returns whether a value is not sent at all: `null`, and also a list or an object without members (RFC 6570 §2.3),
/// unless it is written as JSON.
fn is_undefined(value: &Value, style: Style) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty() && style != Style::Json,
        Value::Object(members) => members.is_empty() && style != Style::Json,
        _ => false,
    }
}

/// Writes a value as name-value pairs of a query or form.
fn pairs(name: &str, value: &Value, style: Style, out: &mut Vec<String>) {
    match (style, value) {
        // Send nothing for such a value: an empty text would replace the value that the API has.
        (style, value) if is_undefined(value, style) => {}
        (Style::Exploded, Value::Array(items)) => {
            out.extend(items.iter().map(|item| pair(name, &text(item))));
        }
        (Style::Exploded, Value::Object(members)) => {
            let set = members.iter().filter(|(_, value)| !value.is_null());
            out.extend(set.map(|(name, value)| pair(name, &text(value))));
        }
        (Style::Deep, value) => deep(&encoded(name), value, out),
        (style, value) => {
            let value = joined(value, style, &|text| encoded(text));
            out.push(format!("{}={value}", encoded(name)));
        }
    }
}

/// Writes the parts of a value in the style `deepObject`. OpenAPI does not define the form of lists and nested objects
/// in this style, so they are written in the form that most APIs read.
fn deep(name: &str, value: &Value, out: &mut Vec<String>) {
    match value {
        Value::Null => {}
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                deep(&format!("{name}[{at}]"), item, out);
            }
        }
        Value::Object(members) => {
            for (member, value) in members {
                deep(&format!("{name}[{}]", encoded(member)), value, out);
            }
        }
        value => out.push(format!("{name}={}", encoded(&text(value)))),
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Credentials, FetchRequest};
    use crate::Api;

    #[test]
    fn null_is_sent_only_as_a_required_body_in_json() {
        let form = "application/x-www-form-urlencoded";
        for (media, is_required, sent) in [
            ("application/json", true, Some("null")),
            ("application/json", false, Some("")),
            (form, true, None),
            (form, false, Some("")),
            ("text/plain", false, Some("")),
        ] {
            let body = json!({"required": is_required, "content": {media: {"schema": {}}}});
            let paths = json!({"/x": {"post": {"requestBody": body}}});
            let document = json!({"openapi": "3.1.0", "paths": paths}).to_string();
            let api = Api::parse(&document).unwrap();
            let arguments = json!({"body": null});
            let arguments = arguments.as_object().unwrap();
            let operation = &api.operations()[0];
            let request = operation.request("https://x.org", &Credentials::default(), arguments);
            let expected = sent.map(|sent| (sent.as_bytes().to_vec(), !sent.is_empty()));
            let request = request.ok().map(|request| {
                let is_typed = request.headers.iter().any(|(name, _)| name == "content-type");
                (request.body, is_typed)
            });
            assert_eq!(request, expected, "{media} {is_required}");
        }
    }

    /// Returns the request that a call of the operation sends.
    fn request(
        path: &str,
        operation: &serde_json::Value,
        arguments: &serde_json::Value,
    ) -> Result<FetchRequest, String> {
        let document = json!({"openapi": "3.1.0", "paths": {path: {"post": operation}}});
        let api = Api::parse(&document.to_string()).unwrap();
        let arguments = arguments.as_object().unwrap();
        api.operations()[0].request("https://x.org", &Credentials::default(), arguments)
    }

    #[test]
    fn a_value_that_could_lead_to_another_path_is_refused() {
        let operation = json!({"parameters": [{"name": "id", "in": "path", "schema": {}}]});
        let sent = |id: serde_json::Value| request("/é/{id}", &operation, &json!({"id": id}));
        for id in ["", "..", "../x", "a/..", "a\\..\\b", "a/.", "..;/x", "/", "//", ";x"] {
            assert!(sent(id.into()).unwrap_err().contains("`id`"), "{id}");
        }
        assert!(sent(json!(["../x", "y"])).is_err());
        for (id, path) in [("a/b.c", "a%2Fb.c"), ("..a", "..a"), ("a..b/c", "a..b%2Fc")] {
            assert_eq!(sent(id.into()).unwrap().url, format!("https://x.org/%C3%A9/{path}"));
        }
    }

    #[test]
    fn a_header_with_a_control_character_and_a_form_without_members_are_refused() {
        let header = json!({"parameters": [{"name": "X-A", "in": "header", "schema": {}}]});
        let refused = request("/x", &header, &json!({"X-A": "a\r\nX-B: c"})).unwrap_err();
        assert!(refused.contains("`X-A`"), "{refused}");
        let form = json!({"requestBody": {"content": {"application/x-www-form-urlencoded": {}}}});
        for body in [json!("a=1"), json!([1])] {
            let refused = request("/x", &form, &json!({"body": body})).unwrap_err();
            assert!(refused.contains("`body` must be an object"), "{refused}");
        }
    }

    #[test]
    fn a_parameter_in_text_is_sent_without_quotation_marks() {
        let parameter =
            |name: &str, media: &str| json!({"name": name, "in": "query", "content": {media: {}}});
        let operation = json!({"parameters": [
            parameter("json", "application/json"), parameter("text", "text/plain"),
        ]});
        let sent = request("/x", &operation, &json!({"json": "a", "text": "a"})).unwrap();
        assert_eq!(sent.url, "https://x.org/x?json=%22a%22&text=a");
    }

    #[test]
    fn a_request_names_its_length_media_type_and_compressions_once() {
        let operation = json!({"requestBody": {"content": {"application/json": {}}}});
        let document = json!({"openapi": "3.1.0", "paths": {"/x": {"post": operation}}});
        let api = Api::parse(&document.to_string()).unwrap();
        let own = vec![("content-type".to_owned(), "application/vnd.x+json".to_owned())];
        let credentials = Credentials { headers: own, ..Credentials::default() };
        for (arguments, length) in [(json!({}), vec!["0"]), (json!({"body": 1}), vec![])] {
            let arguments = arguments.as_object().unwrap();
            let sent = api.operations()[0].request("https://x.org", &credentials, arguments);
            let sent = sent.unwrap();
            let values = |name: &str| -> Vec<&str> {
                let named = sent.headers.iter().filter(|(own, _)| own == name);
                named.map(|(_, value)| &**value).collect()
            };
            assert_eq!(values("content-length"), length);
            assert_eq!(values("content-type"), ["application/vnd.x+json"]);
            assert_eq!(values("accept-encoding"), ["gzip, deflate"]);
        }
    }

    #[test]
    fn a_list_or_an_object_without_members_is_sent_only_in_json() {
        let parameter = |name: &str, place: &str, more: serde_json::Value| {
            let mut one = json!({"name": name, "in": place, "schema": {}});
            one.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            one
        };
        let parameters = [
            parameter("joined", "query", json!({"explode": false})),
            parameter("pairs", "query", json!({})),
            parameter("deep", "query", json!({"style": "deepObject"})),
            parameter("json", "query", json!({"content": {"application/json": {"schema": {}}}})),
            parameter("X-List", "header", json!({})),
            parameter("crumb", "cookie", json!({})),
        ];
        let paths = json!({"/x": {"get": {"parameters": parameters}}});
        let api = Api::parse(&json!({"openapi": "3.1.0", "paths": paths}).to_string()).unwrap();
        for empty in [json!([]), json!({})] {
            let names = ["joined", "pairs", "deep", "json", "X-List", "crumb"];
            let arguments = names.iter().map(|name| ((*name).to_owned(), empty.clone())).collect();
            let operation = &api.operations()[0];
            let request = operation.request("https://x.org", &Credentials::default(), &arguments);
            let request = request.unwrap();
            let sent = if empty.is_array() { "%5B%5D" } else { "%7B%7D" };
            assert_eq!(request.url, format!("https://x.org/x?json={sent}"));
            let is_own = |name: &str| name == "x-list" || name == "cookie";
            assert!(!request.headers.iter().any(|(name, _)| is_own(name)));
        }
    }
}
