//! Converts calls, results and errors of Codomyrmex, another tool protocol, to MCP messages and back.
//!
//! Reading is lenient, because senders add members and statuses of their own; writing follows the schema exactly.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use crate::mcp::{CallToolParams, CallToolResult, ContentBlock, Meta};
use crate::{ErrorCode, Payload, RawObject, RpcError};

/// The member of a result's `_meta` in which an MCP result keeps those parts of a Codomyrmex result that MCP itself
/// cannot express.
const META: &str = "codomyrmex";

/// A call of a tool, in the form of Codomyrmex.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The name of the tool, e.g. `module.tool`.
    pub tool_name: String,
    /// The arguments of the call.
    pub arguments: Map<String, Value>,
}

/// The result of a tool, in the form of Codomyrmex.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The outcome of the call; a text that contains `fail`, e.g. `failure`, means that the call failed.
    #[serde(default = "success")]
    pub status: String,
    /// The data that the tool returned, if the call succeeded.
    #[serde(default)]
    pub data: Option<Map<String, Value>>,
    /// The error of the tool, if the call failed.
    #[serde(default)]
    pub error: Option<ErrorDetail>,
    /// An explanation of the result for people.
    #[serde(default)]
    pub explanation: Option<String>,
}

/// The error in the result of a failed call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorDetail {
    /// The type of the error, usually the name of an [`ErrorType`].
    pub error_type: String,
    /// The error message, for people.
    pub error_message: String,
    /// Details of the error: an object or a text.
    #[serde(default, deserialize_with = "details", skip_serializing_if = "Option::is_none")]
    pub error_details: Option<Value>,
}

/// The types of errors that Codomyrmex defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ErrorType {
    /// The arguments of the call are invalid.
    ValidationError,
    /// A file that the call needs does not exist.
    FileNotFoundError,
    /// The caller is not authenticated.
    AuthenticationError,
    /// The tool or a resource does not exist.
    ResourceNotFound,
    /// The tool failed for another reason.
    ToolExecutionError,
    /// A limit on calls is reached.
    ApiLimitExceeded,
    /// The operation took too long.
    TimeoutError,
    /// The caller lacks a permission.
    PermissionError,
}

fn success() -> String {
    "success".to_owned()
}

fn details<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Value>, D::Error> {
    match Option::<Value>::deserialize(input)? {
        None => Ok(None),
        Some(details @ (Value::Object(_) | Value::String(_))) => Ok(Some(details)),
        Some(_) => Err(serde::de::Error::custom("`error_details` is not an object or a text")),
    }
}

impl ErrorType {
    /// All types of errors that Codomyrmex defines.
    pub const ALL: [Self; 8] = [
        Self::ValidationError,
        Self::FileNotFoundError,
        Self::AuthenticationError,
        Self::ResourceNotFound,
        Self::ToolExecutionError,
        Self::ApiLimitExceeded,
        Self::TimeoutError,
        Self::PermissionError,
    ];

    /// Returns the name of the error type, as it is written in results.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ValidationError => "ValidationError",
            Self::FileNotFoundError => "FileNotFoundError",
            Self::AuthenticationError => "AuthenticationError",
            Self::ResourceNotFound => "ResourceNotFound",
            Self::ToolExecutionError => "ToolExecutionError",
            Self::ApiLimitExceeded => "ApiLimitExceeded",
            Self::TimeoutError => "TimeoutError",
            Self::PermissionError => "PermissionError",
        }
    }

    /// Returns the MGP code that corresponds to this type of error.
    #[must_use]
    pub fn code(self) -> ErrorCode {
        match self {
            Self::ValidationError => ErrorCode::INVALID_TOOL_ARGS,
            Self::FileNotFoundError => ErrorCode::RESOURCE_NOT_FOUND,
            Self::AuthenticationError => ErrorCode::AUTH_REQUIRED,
            Self::ResourceNotFound => ErrorCode::TOOL_NOT_FOUND,
            Self::ToolExecutionError => ErrorCode::UPSTREAM_ERROR,
            Self::ApiLimitExceeded => ErrorCode::RATE_LIMITED,
            Self::TimeoutError => ErrorCode::TIMEOUT,
            Self::PermissionError => ErrorCode::PERMISSION_DENIED,
        }
    }

    /// Returns the error type that corresponds to a code of MGP; each code has a corresponding type.
    #[must_use]
    pub fn of_code(code: ErrorCode) -> Self {
        match code {
            ErrorCode::INVALID_TOOL_ARGS | ErrorCode::INVALID_PARAMS => Self::ValidationError,
            ErrorCode::RESOURCE_NOT_FOUND | ErrorCode::MCP_RESOURCE_NOT_FOUND => {
                Self::FileNotFoundError
            }
            ErrorCode::AUTH_REQUIRED | ErrorCode::AUTH_EXPIRED => Self::AuthenticationError,
            ErrorCode::TIMEOUT | ErrorCode::UPSTREAM_TIMEOUT => Self::TimeoutError,
            ErrorCode(1000..=1099) => Self::PermissionError,
            ErrorCode(3000..=3099) => Self::ApiLimitExceeded,
            ErrorCode(4001..=4003) | ErrorCode::METHOD_NOT_FOUND => Self::ResourceNotFound,
            _ => Self::ToolExecutionError,
        }
    }
}

impl ToolCall {
    /// Reads a call leniently: unknown members are dropped, and a name of any form is accepted.
    ///
    /// # Errors
    /// Returns −32602 (invalid params) if a member is missing or has the wrong type.
    pub fn read(text: &str) -> Result<Self, RpcError> {
        serde_json::from_str(text).map_err(RpcError::invalid_params)
    }

    /// Reads a call strictly: it must follow the schema of Codomyrmex exactly.
    ///
    /// # Errors
    /// Returns −32602 (invalid params) if a member is missing, has the wrong type or is unknown, or if the name is not
    /// of the form `module.tool` in lower case.
    pub fn read_strictly(text: &str) -> Result<Self, RpcError> {
        let members: Map<String, Value> =
            serde_json::from_str(text).map_err(RpcError::invalid_params)?;
        let other = members.keys().find(|name| *name != "tool_name" && *name != "arguments");
        if let Some(other) = other {
            return Err(RpcError::invalid_params(format_args!("unknown member `{other}`")));
        }
        let call = Self::read(text)?;
        let permits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let is_part = |part: &str| !part.is_empty() && part.bytes().all(permits);
        if !call.tool_name.contains('.') || !call.tool_name.split('.').all(is_part) {
            return Err(RpcError::invalid_params("`tool_name` is not of the form `module.tool`"));
        }
        Ok(call)
    }

    /// Converts the call to the params of `tools/call`.
    ///
    /// # Errors
    /// Returns −32603 (internal error) if the arguments cannot be encoded, which does not happen.
    pub fn to_params(&self) -> Result<CallToolParams, RpcError> {
        let mut params = CallToolParams::new(self.tool_name.as_str());
        params.arguments = Some(RawObject::of(&self.arguments)?);
        Ok(params)
    }

    /// Creates the result for an error of this call. If the error reports a wrong argument, the result contains the
    /// argument's name, its value and the violated constraint.
    #[must_use]
    pub fn failure(&self, error: &RpcError) -> ToolResult {
        let mut result = ToolResult::from_error(error);
        let details = error.as_recovery().and_then(|recovery| recovery.details.as_ref());
        let details: Option<Value> =
            details.and_then(|details| Payload::of(details).ok()?.get().ok());
        let Some((detail, details)) = result.error.as_mut().zip(details) else { return result };
        // Use only the first wrong argument. If the tool itself reports the argument, the details describe it; if the
        // check against the schema does, the first entry of their list `violations` describes it.
        let first = details.pointer("/violations/0").unwrap_or(&details);
        let text = |names: [&str; 2]| names.iter().find_map(|name| first.get(*name)?.as_str());
        if let Some(path) = text(["field", "path"]) {
            let parameter = path.trim_start_matches('/').replace('/', ".");
            let place = format!("/{}", parameter.replace('.', "/"));
            let arguments = Value::Object(self.arguments.clone());
            detail.error_details = Some(json!({
                "parameter": parameter,
                "provided_value": arguments.pointer(&place),
                "constraint": text(["expected", "message"]).unwrap_or(error.message()),
            }));
        }
        result
    }
}

impl ToolResult {
    /// Returns whether the tool failed.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        self.status.to_ascii_lowercase().contains("fail")
    }

    /// Checks that a failed result has the member `error` and no `data`.
    ///
    /// # Errors
    /// Returns −32602 (invalid params) with the name of the invalid member.
    pub fn check(&self) -> Result<(), RpcError> {
        if self.is_failure() && self.error.is_none() {
            return Err(RpcError::invalid_params("`error` is missing in a failed result"));
        }
        if self.is_failure() && self.data.is_some() {
            return Err(RpcError::invalid_params("`data` must be null in a failed result"));
        }
        Ok(())
    }

    /// Creates the result of a call that failed with an error.
    #[must_use]
    pub fn from_error(error: &RpcError) -> Self {
        let kind = ErrorType::of_code(error.code());
        let details = error.as_data().and_then(|data| data.get::<Value>().ok());
        let error = ErrorDetail {
            error_type: kind.as_str().to_owned(),
            error_message: error.message().to_owned(),
            error_details: details.filter(Value::is_object),
        };
        Self { status: "failure".to_owned(), error: Some(error), ..Self::default() }
    }

    /// Converts the result of `tools/call` to the form of Codomyrmex.
    #[must_use]
    pub fn from_mcp(result: &CallToolResult) -> Self {
        let kept = result.meta.as_ref().and_then(|meta| meta.get(META)?.get::<Value>().ok());
        let kept = kept.unwrap_or_default();
        let status = kept.get("status").and_then(Value::as_str);
        let is_error = result.is_error == Some(true);
        let text = result.content.iter().find_map(ContentBlock::as_text).map(str::to_owned);
        let data = result.structured_content.as_ref().and_then(|data| data.get().ok());
        let mut read = Self {
            status: status.unwrap_or(if is_error { "failure" } else { "success" }).to_owned(),
            data,
            error: None,
            explanation: text,
        };
        if read.is_failure() {
            read.data = None;
            let error = kept.get("error").cloned();
            let other = || ErrorDetail {
                error_type: ErrorType::ToolExecutionError.as_str().to_owned(),
                error_message: read.explanation.clone().unwrap_or_else(|| "the tool failed".into()),
                error_details: None,
            };
            let error = error.and_then(|error| serde_json::from_value(error).ok());
            read.error = Some(error.unwrap_or_else(other));
        }
        read
    }

    /// Converts the result to the result of `tools/call`.
    ///
    /// # Errors
    /// Returns −32603 (internal error) if the data cannot be encoded, which does not happen.
    pub fn to_mcp(&self) -> Result<CallToolResult, RpcError> {
        let error = self.error.as_ref().map(|error| error.error_message.clone());
        let text = self.explanation.clone().or(error);
        let content: Vec<_> = text.into_iter().map(ContentBlock::text).collect();
        let mut result = CallToolResult::new(content);
        if let Some(data) = &self.data {
            result.structured_content = Some(Payload::of(data)?);
        }
        result.is_error = self.is_failure().then_some(true);
        let mut kept = json!({ "status": self.status });
        if let Some(error) = &self.error {
            kept["error"] = serde_json::to_value(error).unwrap_or_default();
        }
        let meta = result.meta.get_or_insert_with(Meta::new);
        meta.0.encode(META, &kept)?;
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_type_has_a_code_of_its_own() {
        for kind in ErrorType::ALL {
            assert_eq!(ErrorType::of_code(kind.code()), kind);
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }

    #[test]
    fn strict_reading_refuses_what_lenient_reading_accepts() {
        for (text, is_strict) in [
            (r#"{"tool_name":"a.b_2","arguments":{}}"#, true),
            (r#"{"tool_name":"Foo","arguments":{}}"#, false),
            (r#"{"tool_name":"x","arguments":{}}"#, false),
            (r#"{"tool_name":"a.b","arguments":{},"more":1}"#, false),
        ] {
            assert!(ToolCall::read(text).is_ok(), "{text}");
            assert_eq!(ToolCall::read_strictly(text).is_ok(), is_strict, "{text}");
        }
        assert!(ToolCall::read(r#"{"tool_name":"a.b"}"#).is_err());
    }

    #[test]
    fn the_rules_of_results_name_the_wrong_member() {
        let check = |text: &str| serde_json::from_str::<ToolResult>(text).unwrap().check();
        let said = |text: &str| check(text).unwrap_err().message().to_owned();
        assert!(said(r#"{"status":"failure"}"#).contains("`error`"));
        let both =
            r#"{"status":"failed","data":{},"error":{"error_type":"X","error_message":"m"}}"#;
        assert!(said(both).contains("`data`"));
        assert!(check("{}").is_ok() && check(r#"{"status":"success","data":null}"#).is_ok());
        let details = r#"{"error_type":"X","error_message":"m","error_details":[1]}"#;
        assert!(serde_json::from_str::<ErrorDetail>(details).is_err());
    }

    #[test]
    fn results_are_written_as_they_were_read() {
        for text in [
            r#"{"status":"success","data":{"code":"x","lines":2},"error":null,"explanation":"Done."}"#,
            r#"{"status":"failure","data":null,"error":{"error_type":"ValidationError","error_message":"m","error_details":{"parameter":"prompt","provided_value":"","constraint":"non-empty string"}},"explanation":"Failed."}"#,
        ] {
            let read: ToolResult = serde_json::from_str(text).unwrap();
            assert!(read.check().is_ok());
            assert_eq!(json!(read), serde_json::from_str::<Value>(text).unwrap());
        }
        let read: ToolResult = serde_json::from_str("{}").unwrap();
        assert_eq!((&*read.status, read.data), ("success", None));
        // An error in a successful result is accepted.
        let both = r#"{"status":"success","error":{"error_type":"X","error_message":"m","error_details":"d"}}"#;
        assert!(serde_json::from_str::<ToolResult>(both).unwrap().check().is_ok());
    }

    #[test]
    fn an_error_of_a_call_becomes_a_failure() {
        let result = ToolResult::from_error(&RpcError::new(ErrorCode::TIMEOUT, "too slow"));
        assert!(result.is_failure() && result.check().is_ok());
        assert_eq!(result.error.unwrap().error_type, "TimeoutError");
    }

    proptest! {
        #[test]
        fn every_code_has_a_type_whose_code_has_the_same_type(code in any::<i32>()) {
            let kind = ErrorType::of_code(ErrorCode(code));
            prop_assert_eq!(ErrorType::of_code(kind.code()), kind);
        }

        #[test]
        fn a_result_survives_the_way_through_mcp(
            status in prop::sample::select(vec!["success", "no_change_needed", "partial_success", "failure"]),
            explanation in "\\PC{1,20}",
            number in any::<i32>(),
        ) {
            let mut result = ToolResult {
                status: status.to_owned(),
                explanation: Some(explanation),
                ..ToolResult::default()
            };
            if result.is_failure() {
                result.error = Some(ErrorDetail {
                    error_type: "Own".to_owned(),
                    error_message: "m".to_owned(),
                    error_details: Some(json!({ "n": number })),
                });
            } else {
                result.data = Some(Map::from_iter([("n".to_owned(), number.into())]));
            }
            prop_assert!(result.check().is_ok());
            prop_assert_eq!(ToolResult::from_mcp(&result.to_mcp().unwrap()), result);
        }
    }
}
