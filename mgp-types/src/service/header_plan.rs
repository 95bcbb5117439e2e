//! The tool arguments that are repeated in headers, declared by `x-mcp-header` in the schema (MCP 2026-07-28, tools).
//!
//! The annotations are read from the text of the schema alone: `$ref` is never followed, not even within the schema.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::HeaderParams;
use super::header_value::{decode_header, encode_header};
use crate::record::RawObject;
use crate::wire::{ErrorCode, RpcError};

const ANNOTATION: &str = "x-mcp-header";

/// The maximum number of arguments of a tool that are repeated in headers. HTTP implementations accept about a hundred
/// headers, and a server must not make its clients examine millions of annotations.
const MAX_HEADERS: usize = 64;

/// The schema keywords whose values are data, so annotations in them are ignored.
const DATA_KEYWORDS: [&str; 5] = ["const", "default", "enum", "example", "examples"];

/// The schema keywords whose values are objects with a schema for each name; the names are not keywords.
const SCHEMA_MAP_KEYWORDS: [&str; 5] =
    ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];

/// The largest integer that every JSON reader represents exactly.
const MAX_SAFE_INTEGER: i64 = (1 << 53) - 1;

/// The list of a tool's arguments that HTTP callers must repeat in headers; it is empty for most tools.
///
/// ```
/// use mgp_types::service::HeaderPlan;
/// use mgp_types::{Payload, RawObject};
///
/// let schema = r#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}"#;
/// let schema = RawObject::try_from(Payload::from_trusted(schema)).unwrap();
/// let plan = HeaderPlan::of(&schema).unwrap();
/// let headers = plan.headers(r#"{"region":"us-west1"}"#).unwrap();
/// assert_eq!(headers.values("region").collect::<Vec<_>>(), ["us-west1"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderPlan(Vec<Mirrored>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Mirrored {
    /// The names on the way to the argument; paths share them, because a server chooses their number and length.
    path: Vec<Arc<str>>,
    header: String,
}

/// The error of a schema with an invalid `x-mcp-header` annotation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderPlanError {
    /// The annotation is a text that cannot be part of a header's name.
    #[error("the name `{0}` cannot be part of a header's name")]
    Name(String),
    /// The annotation is not a text.
    #[error("the name of a header must be a string")]
    NoText,
    /// Two arguments have the same header; header names that differ only in case count as equal.
    #[error("two arguments have the header `{0}`")]
    Twice(String),
    /// More than 64 arguments have a header.
    #[error("more than {MAX_HEADERS} arguments have a header")]
    TooMany,
    /// The argument is not a string, integer or boolean.
    #[error("`{0}` must be a string, an integer or a boolean to be repeated in a header")]
    Type(String),
    /// The annotation is in a place that cannot be reached from the schema's root through `properties` alone.
    #[error("`x-mcp-header` is not on a plain property: {0}")]
    Place(String),
}

/// A difference between the `Mcp-Param-*` headers of a call and its arguments.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderMismatch {
    /// An argument is present, but its header is missing.
    #[error("header mismatch: `Mcp-Param-{0}` is missing, but its argument is present")]
    Missing(String),
    /// A header is present, but its argument is missing.
    #[error("header mismatch: `Mcp-Param-{0}` is present, but its argument is missing")]
    Unexpected(String),
    /// A header is present more than once.
    #[error("header mismatch: `Mcp-Param-{0}` is present more than once")]
    Twice(String),
    /// The value of a header cannot be decoded.
    #[error("header mismatch: `Mcp-Param-{0}` is neither visible ASCII nor valid Base64")]
    Unreadable(String),
    /// The value of a header differs from its argument.
    #[error("header mismatch: `Mcp-Param-{0}` differs from its argument")]
    Different(String),
}

impl HeaderPlan {
    /// Reads the annotations in the input schema of a tool.
    ///
    /// # Errors
    /// Returns the first invalid annotation, or an error if a schema that may have annotations cannot be read; a client
    /// must not call such a tool over HTTP.
    pub fn of(schema: &RawObject) -> Result<Self, HeaderPlanError> {
        let text = schema.as_payload().as_str();
        // Parse only schemas that can contain an annotation: most have none, and a text search is faster. With `\u`
        // escapes, the name of an annotation could be written differently, so such a schema is parsed too.
        if !text.contains(ANNOTATION) && !text.contains(r"\u") {
            return Ok(Self::default());
        }
        // A schema that the parser cannot read, e.g. because it is nested too deeply, is refused: it might contain
        // annotations.
        let Ok(Value::Object(schema)) = serde_json::from_str(text) else {
            return Err(HeaderPlanError::Place("the schema cannot be read".to_owned()));
        };
        let mut plan = Self::default();
        if schema.contains_key(ANNOTATION) {
            return Err(HeaderPlanError::Place("the schema itself".to_owned()));
        }
        plan.walk(&schema, &mut Vec::new())?;
        Ok(plan)
    }

    /// Returns whether no argument is repeated in a header.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the headers for a call of the tool with these arguments.
    ///
    /// Absent and null arguments have no header.
    ///
    /// # Errors
    /// Returns −32602 (invalid params) if the arguments are not JSON, if an argument with a header is an object or
    /// array, or if a number is not an integer that every JSON reader represents exactly.
    pub fn headers(&self, arguments: &str) -> Result<HeaderParams, RpcError> {
        let mut headers = HeaderParams::new();
        let arguments: Value = serde_json::from_str(arguments).map_err(RpcError::invalid_params)?;
        for Mirrored { path, header } in &self.0 {
            match value_at(&arguments, path) {
                Some(Value::String(text)) => {
                    headers.push(header.clone(), encode_header(text).into_owned());
                }
                Some(Value::Bool(truth)) => headers.push(header.clone(), truth.to_string()),
                Some(Value::Number(number)) => {
                    let Some(integer) = integer(number) else {
                        let message = format!(
                            "`{}` is repeated in a header and must be an integer between {} and {MAX_SAFE_INTEGER}",
                            path.join("."),
                            -MAX_SAFE_INTEGER
                        );
                        return Err(RpcError::invalid_params(message));
                    };
                    headers.push(header.clone(), integer.to_string());
                }
                Some(Value::Object(_) | Value::Array(_)) => {
                    return Err(RpcError::invalid_params(HeaderPlanError::Type(path.join("."))));
                }
                Some(Value::Null) | None => {}
            }
        }
        Ok(headers)
    }

    /// Compares the headers that were received with the arguments of the call.
    ///
    /// # Errors
    /// Returns the first difference.
    pub fn check(&self, arguments: &str, headers: &HeaderParams) -> Result<(), HeaderMismatch> {
        // Arguments that are not valid JSON have no headers to compare; the call is refused when its arguments are
        // decoded.
        let Ok(arguments) = serde_json::from_str::<Value>(arguments) else { return Ok(()) };
        for Mirrored { path, header } in &self.0 {
            let mut values = headers.values(header);
            let (value, more) = (values.next(), values.next());
            let argument = value_at(&arguments, path);
            let name = || header.clone();
            let value = match (argument, value) {
                (None, None) => continue,
                (None, Some(_)) => return Err(HeaderMismatch::Unexpected(name())),
                (Some(_), None) => return Err(HeaderMismatch::Missing(name())),
                (Some(_), Some(value)) => value,
            };
            if more.is_some() {
                return Err(HeaderMismatch::Twice(name()));
            }
            let Some(value) = decode_header(value) else {
                return Err(HeaderMismatch::Unreadable(name()));
            };
            if !argument.is_some_and(|argument| equals(&value, argument)) {
                return Err(HeaderMismatch::Different(name()));
            }
        }
        Ok(())
    }

    fn walk(
        &mut self,
        schema: &Map<String, Value>,
        path: &mut Vec<Arc<str>>,
    ) -> Result<(), HeaderPlanError> {
        for (keyword, value) in schema {
            match (keyword.as_str(), value) {
                (ANNOTATION, _) => {}
                ("properties", Value::Object(properties)) => {
                    for (name, property) in properties {
                        let Value::Object(property) = property else { continue };
                        path.push(name.as_str().into());
                        self.add(property, path)?;
                        self.walk(property, path)?;
                        path.pop();
                    }
                }
                (keyword, value) => find_stray(keyword, value)?,
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        property: &Map<String, Value>,
        path: &[Arc<str>],
    ) -> Result<(), HeaderPlanError> {
        let header = match property.get(ANNOTATION) {
            None => return Ok(()),
            Some(Value::String(header)) => header,
            Some(_) => return Err(HeaderPlanError::NoText),
        };
        if header.is_empty() || !header.bytes().all(is_token) {
            return Err(HeaderPlanError::Name(header.escape_debug().take(80).collect()));
        }
        if !is_primitive(property.get("type")) {
            return Err(HeaderPlanError::Type(path.join(".")));
        }
        if self.0.iter().any(|known| known.header.eq_ignore_ascii_case(header)) {
            return Err(HeaderPlanError::Twice(header.clone()));
        }
        if self.0.len() == MAX_HEADERS {
            return Err(HeaderPlanError::TooMany);
        }
        self.0.push(Mirrored { path: path.to_vec(), header: header.clone() });
        Ok(())
    }
}

impl From<HeaderMismatch> for RpcError {
    fn from(mismatch: HeaderMismatch) -> Self {
        Self::new(ErrorCode::HEADER_MISMATCH, mismatch.to_string()).because(mismatch)
    }
}

// === Schemas ===

/// Returns an error if an annotation is in a place where none is allowed: below any keyword except `properties`.
fn find_stray(keyword: &str, value: &Value) -> Result<(), HeaderPlanError> {
    if DATA_KEYWORDS.contains(&keyword) {
        return Ok(());
    }
    match value {
        // The names in this object are not keywords, so each value is examined like a schema.
        Value::Object(map) if SCHEMA_MAP_KEYWORDS.contains(&keyword) => {
            map.values().try_for_each(|value| find_stray("", value))
        }
        Value::Object(map) if map.contains_key(ANNOTATION) => {
            Err(HeaderPlanError::Place(format!("behind `{keyword}`")))
        }
        Value::Object(map) => {
            map.iter().try_for_each(|(keyword, value)| find_stray(keyword, value))
        }
        Value::Array(items) => items.iter().try_for_each(|item| find_stray(keyword, item)),
        _ => Ok(()),
    }
}

/// Returns whether a schema's `type` permits only values that can be written to a header in exactly one way. The type
/// may also permit `null`, because a null argument has no header.
fn is_primitive(kind: Option<&Value>) -> bool {
    let primitive = |kind: &Value| matches!(kind.as_str(), Some("string" | "integer" | "boolean"));
    match kind {
        Some(Value::Array(kinds)) => {
            let mut kinds = kinds.iter().filter(|kind| kind.as_str() != Some("null"));
            kinds.next().is_some_and(primitive) && kinds.next().is_none()
        }
        Some(kind) => primitive(kind),
        None => false,
    }
}

/// Returns whether a byte is allowed in a header name (RFC 9110 §5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

// === Arguments ===

/// Returns the argument at a path; `None` if it is absent or null.
fn value_at<'a>(arguments: &'a Value, path: &[Arc<str>]) -> Option<&'a Value> {
    let mut value = arguments;
    for name in path {
        value = value.as_object()?.get(&**name)?;
    }
    (!value.is_null()).then_some(value)
}

/// Returns whether the decoded value of a header equals an argument. Numbers are compared by value, e.g. `1` equals
/// `1.0`.
fn equals(header: &str, argument: &Value) -> bool {
    match argument {
        Value::String(text) => header == text,
        Value::Bool(truth) => header == if *truth { "true" } else { "false" },
        Value::Number(number) => match serde_json::from_str::<serde_json::Number>(header) {
            Ok(value) => match (integer(&value), integer(number)) {
                (Some(left), Some(right)) => left == right,
                _ => value == *number,
            },
            Err(_) => false,
        },
        _ => false,
    }
}

/// Returns a number as an integer if it has no fraction (`1.0` has none) and its absolute value is at most
/// [`MAX_SAFE_INTEGER`].
fn integer(number: &serde_json::Number) -> Option<i64> {
    let found = if let Some(integer) = number.as_i64() {
        integer
    } else {
        let float = number.as_f64()?;
        #[expect(clippy::cast_possible_truncation, reason = "it has no fraction and is in range")]
        (float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_991.0).then_some(float as i64)?
    };
    (-MAX_SAFE_INTEGER..=MAX_SAFE_INTEGER).contains(&found).then_some(found)
}

#[cfg(test)]
mod tests;
