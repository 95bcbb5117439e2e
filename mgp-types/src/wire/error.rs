//! The error of a failed call (MGP §14).

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{ErrorCode, Payload, Recovery};
use crate::record::{Extras, Object};

/// The error of a call: code, message, recovery hints and further data. Moving it is cheap: it is a single pointer.
///
/// ```
/// use mgp_types::{ErrorCode, RpcError};
///
/// let error = RpcError::new(ErrorCode::TOOL_NOT_FOUND, "unknown tool `grpe`");
/// assert_eq!(error.to_string(), "unknown tool `grpe` (4001)");
/// ```
#[derive(Clone)]
pub struct RpcError(Box<ErrorData>);

#[derive(Clone)]
struct ErrorData {
    code: ErrorCode,
    message: String,
    recovery: Option<Recovery>,
    data: Option<Payload>,
    /// The members of a received error object that this type does not know, unchanged.
    extra: Extras,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl RpcError {
    /// Creates an error with the default recovery hints of its code (MGP §14.5).
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self(Box::new(ErrorData {
            code,
            message: message.into(),
            recovery: Recovery::default_for(code),
            data: None,
            extra: Extras::new(),
            source: None,
        }))
    }

    /// Creates error −32700 (parse error) for a text that is not JSON.
    #[must_use]
    pub fn parse(source: serde_json::Error) -> Self {
        Self::new(ErrorCode::PARSE_ERROR, format!("parse error: {source}")).because(source)
    }

    /// Creates error −32600 (invalid request) for JSON that is not a valid message.
    #[must_use]
    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::INVALID_REQUEST, message)
    }

    /// Creates error −32602 (invalid params) for JSON in which expected members are absent or invalid.
    #[must_use]
    pub fn invalid_members(source: serde_json::Error) -> Self {
        Self::invalid_params(super::invalid_json::reason(&source)).because(source)
    }

    /// Creates error −32602 (invalid params) for a member that is invalid or lacks expected members; `path` is the path
    /// of that member.
    pub(crate) fn invalid_member(path: &str, source: serde_json::Error) -> Self {
        let (path, reason) = (crate::clip(path, 120), super::invalid_json::reason(&source));
        Self::invalid_params(format_args!("`{path}`: {reason}")).because(source)
    }

    /// Creates error −32601 (method not found) for an unknown method.
    #[must_use]
    pub fn method_not_found(method: &str) -> Self {
        let method = crate::clip(method, 120);
        Self::new(ErrorCode::METHOD_NOT_FOUND, format!("unknown method `{method}`"))
    }

    /// Creates error −32602 (invalid params) for params that do not match the method.
    #[must_use]
    pub fn invalid_params(message: impl fmt::Display) -> Self {
        Self::new(ErrorCode::INVALID_PARAMS, format!("invalid params: {message}"))
    }

    /// Creates error −32603 (internal error) for an internal error of this side.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::INTERNAL_ERROR, message)
    }

    /// Sets the source of the error, for logs, audit records and checks in this process; it is never sent to a peer.
    #[must_use]
    pub fn because(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.0.source = Some(Arc::new(source));
        self
    }

    /// Sets the recovery hints, which tell the caller what it can do about the error.
    #[must_use]
    pub fn recovery(mut self, recovery: Recovery) -> Self {
        self.0.recovery = Some(recovery);
        self
    }

    /// Records that the call had begun before it failed: adds `started` to the details of the recovery hints. Does this
    /// only for a code that [otherwise means](ErrorCode::is_refusal) that the call did not run.
    #[must_use]
    pub fn after_start(mut self) -> Self {
        if self.code().is_refusal() {
            let hints = self.0.recovery.get_or_insert_default();
            let details = hints.details.get_or_insert_with(Object::new);
            if details.get("started").is_none() {
                details.insert("started", Payload::from_trusted("true"));
            }
        }
        self
    }

    /// Adds the name of the tool that was called to the details of the recovery hints.
    #[must_use]
    pub fn of_tool(mut self, tool: &str) -> Self {
        if let Ok(tool) = Payload::of(tool) {
            let hints = self.0.recovery.get_or_insert_default();
            hints.details.get_or_insert_with(Object::new).insert("tool", tool);
        }
        self
    }

    /// Replaces the message of the error.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.0.message = message.into();
        self
    }

    /// Removes the recovery hints, for a peer that did not negotiate MGP.
    #[must_use]
    pub fn without_recovery(mut self) -> Self {
        self.0.recovery = None;
        self
    }

    /// Sets `error.data`. When the error is sent, its recovery hints are added to this data; they are not sent if the
    /// data is not an object.
    #[must_use]
    pub fn data(mut self, data: Payload) -> Self {
        self.0.data = Some(data);
        self
    }

    /// Returns `error.code`.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        self.0.code
    }

    /// Returns `error.message`, a text for people; programs use the code.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the recovery hints (`error.data._mgp`).
    #[must_use]
    pub fn as_recovery(&self) -> Option<&Recovery> {
        self.0.recovery.as_ref()
    }

    /// Returns `error.data` without the recovery hints.
    #[must_use]
    pub fn as_data(&self) -> Option<&Payload> {
        self.0.data.as_ref()
    }
}

impl PartialEq for RpcError {
    /// Compares only the parts of the errors that are sent to a peer, so the sources are ignored.
    fn eq(&self, other: &Self) -> bool {
        self.0.code == other.0.code
            && self.0.message == other.0.message
            && self.0.recovery == other.0.recovery
            && self.0.data == other.0.data
            && self.0.extra == other.0.extra
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.0.message, self.0.code)
    }
}

impl fmt::Debug for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RpcError")
            .field("code", &self.0.code)
            .field("message", &self.0.message)
            .field("recovery", &self.0.recovery)
            .field("data", &self.0.data)
            .field("source", &self.0.source)
            .finish()
    }
}

impl StdError for RpcError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_ref().map(|source| &**source as &(dyn StdError + 'static))
    }
}

impl Serialize for RpcError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("code", &self.0.code)?;
        map.serialize_entry("message", &self.0.message)?;
        match (&self.0.data, &self.0.recovery) {
            (None, None) => {}
            (Some(data), None) => map.serialize_entry("data", data)?,
            (data, Some(recovery)) => {
                map.serialize_entry("data", &DataWithRecovery { data: data.as_ref(), recovery })?;
            }
        }
        self.0.extra.write(&mut map)?;
        map.end()
    }
}

/// The value that is serialized as `error.data`: the data with the recovery hints as its member `_mgp`.
struct DataWithRecovery<'a> {
    data: Option<&'a Payload>,
    recovery: &'a Recovery,
}

impl Serialize for DataWithRecovery<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let members = match self.data.map(|data| serde_json::from_str::<Extras>(data.as_str())) {
            None => Extras::new(),
            Some(Ok(members)) => members,
            // Members cannot be added to data that is not an object, so the recovery hints are not sent.
            Some(Err(_)) => return self.data.serialize(serializer),
        };
        let mut map = serializer.serialize_map(None)?;
        members
            .iter()
            .filter(|(name, _)| *name != MGP)
            .try_for_each(|(name, value)| map.serialize_entry(name, value))?;
        map.serialize_entry(MGP, self.recovery)?;
        map.end()
    }
}

/// The member of `error.data` that contains the recovery hints.
const MGP: &str = "_mgp";

impl<'de> Deserialize<'de> for RpcError {
    /// Decodes an error. Members that cannot be decoded are ignored, because a malformed error is still an error. Only
    /// the code is required. A code that is not a number becomes −32603 (internal error), and is kept in `data`.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut members = Extras::deserialize(deserializer)?;
        let received = members.remove("code").filter(|code| !code.is_null());
        let received = received.ok_or_else(|| D::Error::missing_field("code"))?;
        let message = members.decode("message").ok().flatten().unwrap_or_default();
        members.remove("message");
        let (mut data, recovery) = split(members.remove("data").filter(|data| !data.is_null()));
        let code = read_code(&received).unwrap_or_else(|| {
            data = with_code(data.take(), received);
            ErrorCode::INTERNAL_ERROR
        });
        Ok(Self(Box::new(ErrorData {
            code,
            message,
            recovery,
            data,
            extra: members,
            source: None,
        })))
    }
}

/// Reads a code, which can also be a number written as text; returns `None` for any other value.
fn read_code(code: &Payload) -> Option<ErrorCode> {
    let number = || -> Option<i32> {
        serde_json::from_str::<String>(code.as_str()).ok()?.trim().parse().ok()
    };
    serde_json::from_str(code.as_str()).ok().or_else(|| number().map(ErrorCode))
}

/// Adds the received code, which is not a number, to `error.data` as `code`. Data that is not an object, or that
/// already has a member `code`, is returned unchanged.
fn with_code(data: Option<Payload>, code: Payload) -> Option<Payload> {
    let mut members = match &data {
        None => Extras::new(),
        Some(data) => match serde_json::from_str::<Extras>(data.as_str()) {
            Ok(members) if members.get("code").is_none() => members,
            _ => return Some(data.clone()),
        },
    };
    members.insert("code", code);
    Payload::of(&members).ok().or(data)
}

/// Separates `error.data` into the other data and the recovery hints. Hints that cannot be decoded stay in the data.
fn split(data: Option<Payload>) -> (Option<Payload>, Option<Recovery>) {
    let Some(data) = data else { return (None, None) };
    let Ok(mut members) = serde_json::from_str::<Extras>(data.as_str()) else {
        return (Some(data), None);
    };
    let Some(recovery) = members.get(MGP).and_then(Recovery::from_payload) else {
        return (Some(data), None);
    };
    members.remove(MGP);
    let rest = if members.is_empty() { None } else { Payload::of(&members).ok() };
    (rest, Some(recovery))
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for RpcError {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RpcError".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let recovery = generator.subschema_for::<Recovery>();
        schemars::json_schema!({
            "description": "The error object of JSON-RPC; recovery hints are `data._mgp` (MGP §14.4).",
            "type": "object",
            "properties": {
                "code": { "type": "integer" },
                "message": { "type": "string" },
                "data": { "properties": { "_mgp": recovery } },
            },
            "required": ["code", "message"],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) -> RpcError {
        let error: RpcError = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&error).unwrap(), expected);
        error
    }

    #[test]
    fn hints_are_a_member_of_data() {
        let text = r#"{"code":3000,"message":"slow down","data":{"shop":1,"_mgp":{"retryable":true,"x":2}}}"#;
        let error = check(text, text);
        assert!(error.as_recovery().unwrap().is_retryable());
        assert_eq!(error.as_data().unwrap().as_str(), r#"{"shop":1}"#);
        let text = r#"{"code":1,"message":"m","data":{"_mgp":{}}}"#;
        assert!(check(text, text).as_data().is_none());
    }

    #[test]
    fn data_that_is_not_an_object_is_preserved_and_an_unreadable_hint_is_left_out() {
        for text in [
            r#"{"code":1,"message":"m","data":"text"}"#,
            r#"{"code":1,"message":"m","data":[1]}"#,
            r#"{"code":1,"message":"m","data":{"_mgp":7}}"#,
        ] {
            check(text, text);
        }
        check(
            r#"{"code":1,"message":"m","data":{"_mgp":{"retryable":"yes"}}}"#,
            r#"{"code":1,"message":"m","data":{"_mgp":{}}}"#,
        );
        let error = RpcError::new(ErrorCode::TIMEOUT, "m").data(Payload::of("text").unwrap());
        assert!(serde_json::to_string(&error).unwrap().ends_with(r#""data":"text"}"#));
    }

    #[test]
    fn a_malformed_error_is_still_an_error() {
        check(r#"{"code":99999999999}"#, r#"{"code":2147483647,"message":""}"#);
        check(
            r#"{"code":-1,"message":7,"data":null,"_mgp":{}}"#,
            r#"{"code":-1,"message":"","_mgp":{}}"#,
        );
        assert!(serde_json::from_str::<RpcError>(r#"{"message":"m"}"#).is_err());
    }

    #[test]
    fn an_error_whose_code_is_a_text_keeps_its_message() {
        check(
            r#"{"code":"ENOENT","message":"no such file"}"#,
            r#"{"code":-32603,"message":"no such file","data":{"code":"ENOENT"}}"#,
        );
        check(
            r#"{"code":"E1","message":"m","data":{"path":"/a"}}"#,
            r#"{"code":-32603,"message":"m","data":{"path":"/a","code":"E1"}}"#,
        );
        check(
            r#"{"code":"E1","message":"m","data":"more"}"#,
            r#"{"code":-32603,"message":"m","data":"more"}"#,
        );
        check(r#"{"code":"-32602","message":"m"}"#, r#"{"code":-32602,"message":"m"}"#);
    }

    #[test]
    fn an_error_is_one_word() {
        assert_eq!(size_of::<RpcError>(), size_of::<usize>());
    }
}
