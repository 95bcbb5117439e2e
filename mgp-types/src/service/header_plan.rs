//! Which arguments of a tool stand in headers, as `x-mcp-header` in its schema says (MCP 2026-07-28, tools).
//!
//! A plan is read from the schema's text alone: `$ref` is never followed, neither over the network nor inside.

use serde_json::{Map, Value};

use super::HeaderParams;
use super::header_value::{decode_header, encode_header};
use crate::record::RawObject;
use crate::wire::{ErrorCode, RpcError};

/// The annotation.
const NAME: &str = "x-mcp-header";

/// Keywords whose values are data and no schemas.
const DATA: [&str; 5] = ["const", "default", "enum", "example", "examples"];

/// Keywords whose values are maps from any name to a schema.
const MAPS: [&str; 5] =
    ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];

/// The largest integer that every reader of JSON understands.
const SAFE: i64 = (1 << 53) - 1;

/// The arguments that stand in headers; most tools have none.
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

/// One argument and its header.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mirrored {
    path: Vec<String>,
    header: String,
}

/// Why the annotations of a schema mean nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadHeaderPlan {
    /// The name is no name of a header.
    #[error("the name `{0}` cannot be part of a header's name")]
    Name(String),
    /// The annotation is no text.
    #[error("the name of a header must be a string")]
    NoText,
    /// Two arguments have one header; case does not matter.
    #[error("two arguments have the header `{0}`")]
    Twice(String),
    /// The argument is no string, integer or boolean.
    #[error("`{0}` must be a string, an integer or a boolean to stand in a header")]
    Type(String),
    /// The annotation is not on a property that can be reached through properties alone.
    #[error("`x-mcp-header` stands where no plain property is: {0}")]
    Place(String),
}

/// Why the headers of a call do not fit its arguments.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderMismatch {
    /// An argument is there and its header is not.
    #[error("header mismatch: `Mcp-Param-{0}` is missing, and its argument is there")]
    Missing(String),
    /// A header is there and its argument is not.
    #[error("header mismatch: `Mcp-Param-{0}` is there, and its argument is not")]
    Unexpected(String),
    /// A header is there more than once.
    #[error("header mismatch: `Mcp-Param-{0}` is there more than once")]
    Twice(String),
    /// A header cannot be read.
    #[error("header mismatch: `Mcp-Param-{0}` is no visible ASCII and no valid base64")]
    Unreadable(String),
    /// A header says something else than its argument.
    #[error("header mismatch: `Mcp-Param-{0}` says something else than its argument")]
    Different(String),
}

impl HeaderPlan {
    /// Reads the annotations of an input schema.
    ///
    /// # Errors
    /// Why they mean nothing; a client does not use such a tool over HTTP.
    pub fn of(schema: &RawObject) -> Result<Self, BadHeaderPlan> {
        let text = schema.as_payload().as_str();
        // Most schemas have none; the look is cheaper than the parse. The name may be written with escapes.
        if !text.contains(NAME) && !text.contains(r"\u") {
            return Ok(Self::default());
        }
        // Text that nests too deep for the parser holds no schema that anybody reads.
        let Ok(Value::Object(schema)) = serde_json::from_str(text) else {
            return Err(BadHeaderPlan::Place("the schema cannot be read".to_owned()));
        };
        let mut plan = Self::default();
        if schema.contains_key(NAME) {
            return Err(BadHeaderPlan::Place("the schema itself".to_owned()));
        }
        plan.walk(&schema, &mut Vec::new())?;
        Ok(plan)
    }

    /// Whether no argument stands in a header.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes the headers of a call with these arguments.
    ///
    /// What is absent or null has no header, and neither has what is no text, integer or boolean.
    ///
    /// # Errors
    /// −32602 when an integer is too large for a header.
    pub fn headers(&self, arguments: &str) -> Result<HeaderParams, RpcError> {
        let mut headers = HeaderParams::new();
        let arguments: Value = serde_json::from_str(arguments).map_err(RpcError::invalid_params)?;
        for Mirrored { path, header } in &self.0 {
            match at(&arguments, path) {
                Some(Value::String(text)) => {
                    headers.push(header.clone(), encode_header(text).into_owned());
                }
                Some(Value::Bool(truth)) => headers.push(header.clone(), truth.to_string()),
                Some(Value::Number(number)) => {
                    let Some(integer) = integer(number) else {
                        let message = format!(
                            "`{}` stands in a header and must be an integer between {} and {SAFE}",
                            path.join("."),
                            -SAFE
                        );
                        return Err(RpcError::invalid_params(message));
                    };
                    headers.push(header.clone(), integer.to_string());
                }
                _ => {}
            }
        }
        Ok(headers)
    }

    /// Compares the headers that came with the arguments.
    ///
    /// # Errors
    /// The first difference.
    pub fn check(&self, arguments: &str, came: &HeaderParams) -> Result<(), HeaderMismatch> {
        // Arguments that are no JSON are somebody else's to refuse.
        let Ok(arguments) = serde_json::from_str::<Value>(arguments) else { return Ok(()) };
        for Mirrored { path, header } in &self.0 {
            let mut values = came.values(header);
            let (value, more) = (values.next(), values.next());
            let argument = at(&arguments, path);
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
            if !argument.is_some_and(|argument| says(&value, argument)) {
                return Err(HeaderMismatch::Different(name()));
            }
        }
        Ok(())
    }

    /// Walks a schema that is reached through properties alone.
    fn walk(
        &mut self,
        schema: &Map<String, Value>,
        path: &mut Vec<String>,
    ) -> Result<(), BadHeaderPlan> {
        for (keyword, value) in schema {
            match (keyword.as_str(), value) {
                (NAME, _) => {}
                ("properties", Value::Object(properties)) => {
                    for (name, property) in properties {
                        let Value::Object(property) = property else { continue };
                        path.push(name.clone());
                        self.note(property, path)?;
                        self.walk(property, path)?;
                        path.pop();
                    }
                }
                (keyword, value) => find_stray(keyword, value)?,
            }
        }
        Ok(())
    }

    fn note(
        &mut self,
        property: &Map<String, Value>,
        path: &[String],
    ) -> Result<(), BadHeaderPlan> {
        let header = match property.get(NAME) {
            None => return Ok(()),
            Some(Value::String(header)) => header,
            Some(_) => return Err(BadHeaderPlan::NoText),
        };
        if header.is_empty() || !header.bytes().all(is_token) {
            return Err(BadHeaderPlan::Name(header.escape_debug().take(80).collect()));
        }
        if !is_primitive(property.get("type")) {
            return Err(BadHeaderPlan::Type(path.join(".")));
        }
        if self.0.iter().any(|known| known.header.eq_ignore_ascii_case(header)) {
            return Err(BadHeaderPlan::Twice(header.clone()));
        }
        self.0.push(Mirrored { path: path.to_vec(), header: header.clone() });
        Ok(())
    }
}

// === impl From ===

impl From<HeaderMismatch> for RpcError {
    fn from(mismatch: HeaderMismatch) -> Self {
        Self::new(ErrorCode::HEADER_MISMATCH, mismatch.to_string()).because(mismatch)
    }
}

// === Schemas ===

/// Looks for annotations where none may be: behind any keyword but `properties`.
fn find_stray(keyword: &str, value: &Value) -> Result<(), BadHeaderPlan> {
    if DATA.contains(&keyword) {
        return Ok(());
    }
    match value {
        // The names in it are names of schemas.
        Value::Object(map) if MAPS.contains(&keyword) => {
            map.values().try_for_each(|value| find_stray("", value))
        }
        Value::Object(map) if map.contains_key(NAME) => {
            Err(BadHeaderPlan::Place(format!("behind `{keyword}`")))
        }
        Value::Object(map) => {
            map.iter().try_for_each(|(keyword, value)| find_stray(keyword, value))
        }
        Value::Array(items) => items.iter().try_for_each(|item| find_stray(keyword, item)),
        _ => Ok(()),
    }
}

/// One of the three types that have one spelling in a header; null beside it means that there may be no value.
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

/// Whether a byte may stand in the name of a header (RFC 9110 §5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

// === Arguments ===

/// The value at a path; null is as good as none.
fn at<'a>(arguments: &'a Value, path: &[String]) -> Option<&'a Value> {
    let mut value = arguments;
    for name in path {
        value = value.as_object()?.get(name)?;
    }
    (!value.is_null()).then_some(value)
}

/// Whether the text of a header is what an argument says; numbers are compared as such.
fn says(header: &str, argument: &Value) -> bool {
    match argument {
        Value::String(text) => header == text,
        Value::Bool(truth) => header == if *truth { "true" } else { "false" },
        Value::Number(number) => match serde_json::from_str::<serde_json::Number>(header) {
            Ok(said) => match (integer(&said), integer(number)) {
                (Some(said), Some(meant)) => said == meant,
                _ => said == *number,
            },
            Err(_) => false,
        },
        _ => false,
    }
}

/// A number as the integer it is, however it is written.
fn integer(number: &serde_json::Number) -> Option<i64> {
    let found = if let Some(integer) = number.as_i64() {
        integer
    } else {
        let float = number.as_f64()?;
        #[expect(clippy::cast_possible_truncation, reason = "it has no fraction and is in range")]
        (float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_991.0).then_some(float as i64)?
    };
    (-SAFE..=SAFE).contains(&found).then_some(found)
}

#[cfg(test)]
mod tests;
