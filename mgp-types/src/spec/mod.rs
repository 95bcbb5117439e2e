//! Checks example messages against the Rust types of this crate (feature `schema`).
//!
//! The type is determined from the content: from the method of a request, or from the members of a result or fragment
//! together with the section in the file name. Each example is decoded, encoded again and compared. Then rules that are
//! stricter than the decoders are applied, see [`check_example`].

mod envelope;
mod guess;
mod rule;

use serde_json::{Map, Value};

pub use envelope::{ErrorEnvelope, NotificationEnvelope, RequestEnvelope, ResultEnvelope, Version};

use crate::Payload;
use crate::method::{self, Kind, Shape};
use crate::record::RawObject;

/// The fault of an example message that does not match its type.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The example is not JSON.
    #[error("the example is not JSON: {0}")]
    Json(#[source] serde_json::Error),
    /// The example cannot be decoded as its type.
    #[error("does not decode as {name}: {source}")]
    Decode {
        /// The name of the type to which the example belongs.
        name: &'static str,
        /// The error of the decoder.
        source: serde_json::Error,
    },
    /// The example changes when it is decoded and encoded again, so that something is lost.
    #[error("{name} changes it from {before} to {after}")]
    Changed {
        /// The name of the type to which the example belongs.
        name: &'static str,
        /// The example before decoding, in normal form.
        before: String,
        /// The encoded value, in normal form.
        after: String,
    },
    /// A member that the example must have is absent or of the wrong kind.
    #[error("{name} needs {path}")]
    Missing {
        /// The name of the type to which the example belongs.
        name: &'static str,
        /// The path of the member in the example.
        path: String,
    },
    /// No type matches the example.
    #[error("no type for {0}")]
    NoType(String),
}

/// Checks an example: decodes it as its type, encodes it again, and compares the two. Returns the name of the type.
///
/// This is stricter than the decoders: members that the specification shows or requires must be present, even if a
/// decoder accepts messages of peers that omit them.
///
/// # Errors
/// Returns the first fault that was found.
///
/// ```
/// use mgp_types::spec::check_example;
///
/// let ping = r#"{"jsonrpc":"2.0","id":1,"method":"mgp/health/ping","params":{"timestamp":"2026-01-01T00:00:00Z"}}"#;
/// assert_eq!(check_example("11.3-1-ping.json", ping).unwrap(), "PingParams");
/// assert!(check_example("11.3-1-ping.json", &ping.replace("timestamp", "time")).is_err());
/// ```
pub fn check_example(file_name: &str, text: &str) -> Result<&'static str, SpecError> {
    let value: Value = serde_json::from_str(text).map_err(SpecError::Json)?;
    let Some(members) = value.as_object() else {
        return Err(SpecError::NoType("a value that is not an object".to_owned()));
    };
    let has = |name| members.contains_key(name);
    if !has("jsonrpc") {
        if has("method") || has("result") && has("id") || has("error") && has("id") {
            return Err(SpecError::Missing { name: "Envelope", path: "jsonrpc".to_owned() });
        }
        return check_fragment(file_name, &value);
    }
    match (has("method"), has("result"), has("error")) {
        (true, false, false) if has("id") => check_request(text, &value),
        (true, false, false) => check_notification(text, &value),
        (false, true, false) => check_result(file_name, text, &value),
        (false, false, true) => check_error(text, &value),
        _ => Err(SpecError::Missing {
            name: "Envelope",
            path: "one of method, result and error".to_owned(),
        }),
    }
}

/// Returns the normal form of a JSON text: members sorted, without spaces.
///
/// # Errors
/// Returns an error if the text is not JSON.
pub fn normal_form(text: &str) -> Result<String, SpecError> {
    let value: Value = serde_json::from_str(text).map_err(SpecError::Json)?;
    Ok(sorted(&value).to_string())
}

/// Returns the value with the members of all its objects sorted. The map of `serde_json` does not sort them if any
/// crate of the build enables the feature `preserve_order`.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut names: Vec<_> = members.iter().collect();
            names.sort_by_key(|(name, _)| name.as_str());
            let members = names.into_iter().map(|(name, value)| (name.clone(), sorted(value)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        Value::Array(values) => Value::Array(values.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

fn check_request(text: &str, value: &Value) -> Result<&'static str, SpecError> {
    let mut envelope: RequestEnvelope = decode("RequestEnvelope", text)?;
    let Some(info) = method::lookup(&envelope.method) else {
        return same("RequestEnvelope", value, &encode("RequestEnvelope", &envelope)?);
    };
    if info.kind != Kind::Request {
        return Err(SpecError::NoType(format!("request {}", info.name)));
    }
    let shape = method::shapes(info).map(|shapes| shapes.params);
    let shape = shape.ok_or_else(|| SpecError::NoType(info.name.to_owned()))?;
    envelope.params = check_params(&shape, envelope.params.take())?;
    same(shape.name, value, &encode(shape.name, &envelope)?)
}

fn check_notification(text: &str, value: &Value) -> Result<&'static str, SpecError> {
    let mut envelope: NotificationEnvelope = decode("NotificationEnvelope", text)?;
    let Some(info) = method::lookup(&envelope.method) else {
        // A request that lacks its id must not be accepted as a notification, so check the name of the method.
        if !envelope.method.starts_with("notifications/") {
            return Err(SpecError::NoType(format!("notification {}", envelope.method)));
        }
        return same("NotificationEnvelope", value, &encode("NotificationEnvelope", &envelope)?);
    };
    if info.kind != Kind::Notification {
        return Err(SpecError::NoType(format!("notification {}", info.name)));
    }
    let shape = method::shapes(info).map(|shapes| shapes.params);
    let shape = shape.ok_or_else(|| SpecError::NoType(info.name.to_owned()))?;
    envelope.params = check_params(&shape, envelope.params.take())?;
    same(shape.name, value, &encode(shape.name, &envelope)?)
}

/// Checks params; absent params are accepted only if the type accepts `{}`.
fn check_params(shape: &Shape, params: Option<RawObject>) -> Result<Option<RawObject>, SpecError> {
    let Some(params) = params else {
        return reencode(shape, "{}").map(|_| None);
    };
    let text = reencode(shape, params.as_payload().as_str())?;
    let text = RawObject::try_from(Payload::from_trusted(text));
    text.map(Some).map_err(|_| SpecError::NoType(shape.name.to_owned()))
}

fn check_result(file_name: &str, text: &str, value: &Value) -> Result<&'static str, SpecError> {
    let mut envelope: ResultEnvelope = decode("ResultEnvelope", text)?;
    let shape = guess::result(file_name, &value["result"])
        .ok_or_else(|| SpecError::NoType(format!("result {}", value["result"])))?;
    envelope.result = Payload::from_trusted(reencode(&shape, envelope.result.as_str())?);
    same(shape.name, value, &encode(shape.name, &envelope)?)
}

fn check_error(text: &str, value: &Value) -> Result<&'static str, SpecError> {
    let envelope: ErrorEnvelope = decode("RpcError", text)?;
    if let Some(raw) = value.pointer("/error/data/_mgp") {
        // The decoder of errors treats hints that it cannot decode as ordinary data. In an example, hints must be
        // decodable, so decode them here.
        decode::<crate::Recovery>("Recovery", &raw.to_string())?;
        rule::check("Recovery", raw)?;
    } else if envelope.error.code().category().is_some() {
        return Err(SpecError::Missing { name: "RpcError", path: "data/_mgp".to_owned() });
    }
    same("RpcError", value, &encode("RpcError", &envelope)?)
}

fn check_fragment(file_name: &str, value: &Value) -> Result<&'static str, SpecError> {
    let shape = guess::fragment(file_name, value)
        .ok_or_else(|| SpecError::NoType(format!("fragment {value}")))?;
    same(shape.name, value, &reencode(&shape, &value.to_string())?)
}

/// Decodes JSON as a type and encodes it again, then applies the rules of the type.
fn reencode(shape: &Shape, text: &str) -> Result<String, SpecError> {
    let after =
        (shape.reencode)(text).map_err(|source| SpecError::Decode { name: shape.name, source })?;
    rule::check(shape.name, &serde_json::from_str(text).map_err(SpecError::Json)?)?;
    Ok(after)
}

fn same(name: &'static str, before: &Value, after: &str) -> Result<&'static str, SpecError> {
    let (before, after) = (sorted(before).to_string(), normal_form(after)?);
    if before == after { Ok(name) } else { Err(SpecError::Changed { name, before, after }) }
}

fn decode<T: serde::de::DeserializeOwned>(name: &'static str, text: &str) -> Result<T, SpecError> {
    serde_json::from_str(text).map_err(|source| SpecError::Decode { name, source })
}

fn encode<T: serde::Serialize>(name: &'static str, value: &T) -> Result<String, SpecError> {
    serde_json::to_string(value).map_err(|source| SpecError::Decode { name, source })
}
