//! Converts errors to the codes and data of ggen, another tool protocol, for servers whose callers expect them.

use serde::{Deserialize, Serialize};

use crate::{ErrorCode, Payload, RpcError};

/// The arguments do not fit the schema of the tool.
pub const VALIDATION: ErrorCode = ErrorCode(-32001);
/// The tool does not exist. MCP uses the same number for a resource that does not exist.
pub const TOOL_NOT_FOUND: ErrorCode = ErrorCode(-32002);
/// The tool failed or took too long.
pub const TOOL_EXECUTION: ErrorCode = ErrorCode(-32003);
/// The caller is not authenticated.
pub const AUTHENTICATION: ErrorCode = ErrorCode(-32004);
/// The caller lacks a permission.
pub const AUTHORIZATION: ErrorCode = ErrorCode(-32005);

/// The data of an error, in the form of ggen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorData {
    /// The type of the error, e.g. `ValidationError`.
    pub error_type: String,
    /// The name of the argument that is wrong, if the error concerns an argument.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The name of the tool, if the error names it, e.g. that of a call which exceeded its time limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// The time limit that the call exceeded, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The error message, for people.
    pub reason: String,
    /// The trace id of the request that failed.
    pub trace_id: String,
    /// The proposed ways to correct the error.
    #[serde(default)]
    pub suggestions: Vec<String>,
    /// The URL of a page about the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documentation_url: Option<String>,
}

/// Returns the ggen code that corresponds to an MGP code; every code has one.
#[must_use]
pub fn to_ggen(code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::INVALID_TOOL_ARGS => VALIDATION,
        ErrorCode(4001..=4003) => TOOL_NOT_FOUND,
        ErrorCode::TIMEOUT | ErrorCode(5000..=5099) => TOOL_EXECUTION,
        ErrorCode::AUTH_REQUIRED | ErrorCode::AUTH_EXPIRED => AUTHENTICATION,
        ErrorCode(1000..=1099) => AUTHORIZATION,
        ErrorCode(-32700 | -32603..=-32600 | -32005..=-32001) => code,
        _ => ErrorCode::INTERNAL_ERROR,
    }
}

/// Returns the MGP code that corresponds to a ggen code; any other code is returned unchanged.
#[must_use]
pub fn from_ggen(code: ErrorCode) -> ErrorCode {
    match code {
        VALIDATION => ErrorCode::INVALID_TOOL_ARGS,
        TOOL_NOT_FOUND => ErrorCode::TOOL_NOT_FOUND,
        TOOL_EXECUTION => ErrorCode::UPSTREAM_ERROR,
        AUTHENTICATION => ErrorCode::AUTH_REQUIRED,
        AUTHORIZATION => ErrorCode::PERMISSION_DENIED,
        other => other,
    }
}

/// Returns whether a caller may repeat a call that failed with this ggen code.
#[must_use]
pub fn may_retry(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::INTERNAL_ERROR | TOOL_EXECUTION)
}

fn error_type(code: ErrorCode) -> &'static str {
    match code {
        VALIDATION => "ValidationError",
        TOOL_NOT_FOUND => "ToolNotFound",
        TOOL_EXECUTION => "ToolExecution",
        AUTHENTICATION => "AuthenticationError",
        AUTHORIZATION => "AuthorizationError",
        ErrorCode::PARSE_ERROR => "ParseError",
        ErrorCode::INVALID_REQUEST => "InvalidRequest",
        ErrorCode::METHOD_NOT_FOUND => "MethodNotFound",
        ErrorCode::INVALID_PARAMS => "InvalidParams",
        _ => "InternalError",
    }
}

/// The details of our errors that have a corresponding member in ggen's error data.
#[derive(Default, Deserialize)]
struct Details {
    #[serde(default)]
    violations: Vec<Violation>,
    tool: Option<String>,
    timeout_ms: Option<u64>,
}

#[derive(Deserialize)]
struct Violation {
    #[serde(default)]
    path: String,
    #[serde(default)]
    message: String,
}

/// Converts an error to an error with the code and data of ggen; `trace_id` is the trace id of the request.
#[must_use]
pub fn convert(error: &RpcError, trace_id: &str) -> RpcError {
    let code = to_ggen(error.code());
    let recovery = error.as_recovery();
    let details = recovery.and_then(|recovery| recovery.details.as_ref());
    let details = details.and_then(|details| Payload::of(details).ok()?.get::<Details>().ok());
    let Details { violations: wrong, tool, timeout_ms } = details.unwrap_or_default();
    let timeout_ms = timeout_ms.filter(|_| code == TOOL_EXECUTION);
    let field = wrong.first().map(|first| first.path.trim_start_matches('/').to_owned());
    let suggestions = if wrong.is_empty() || code != VALIDATION {
        // Our messages that propose a remedy end with a semicolon and the remedy, so the text after the last semicolon
        // becomes the suggestion.
        let remedy = error.message().rsplit_once("; ").map(|(_, remedy)| remedy.to_owned());
        remedy.into_iter().chain(may_retry(code).then(|| "try again later".to_owned())).collect()
    } else {
        let correct = |one: &Violation| match one.path.as_str() {
            "" => one.message.clone(),
            path => format!("correct `{path}`: {}", one.message),
        };
        wrong.iter().map(correct).collect()
    };
    let data = ErrorData {
        error_type: timeout_ms.map_or_else(|| error_type(code), |_| "ToolTimeout").to_owned(),
        field: field.filter(|field| !field.is_empty()),
        tool_name: tool,
        timeout_ms,
        reason: error.message().to_owned(),
        trace_id: trace_id.to_owned(),
        suggestions,
        documentation_url: None,
    };
    let converted = RpcError::new(code, error.message()).without_recovery();
    match Payload::of(&data) {
        Ok(data) => converted.data(data),
        Err(_) => converted,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::Recovery;

    #[test]
    fn the_five_codes_go_both_ways() {
        for code in [VALIDATION, TOOL_NOT_FOUND, TOOL_EXECUTION, AUTHENTICATION, AUTHORIZATION] {
            assert_eq!(to_ggen(from_ggen(code)), code);
        }
        assert_eq!(to_ggen(ErrorCode::TIMEOUT), TOOL_EXECUTION);
        assert!(may_retry(TOOL_EXECUTION) && !may_retry(VALIDATION));
    }

    #[test]
    fn the_data_of_an_error_has_the_trace_id() {
        let error = RpcError::new(ErrorCode::TOOL_NOT_FOUND, "unknown tool `x`; did you mean `y`?");
        let converted = convert(&error, "req-1");
        assert_eq!(converted.code(), TOOL_NOT_FOUND);
        let data: ErrorData = converted.as_data().unwrap().get().unwrap();
        assert_eq!((&*data.error_type, &*data.trace_id), ("ToolNotFound", "req-1"));
        assert_eq!(data.suggestions, ["did you mean `y`?"]);
    }

    #[test]
    fn each_wrong_argument_becomes_a_suggestion() {
        let wrong = [("/ticker", "too long"), ("", "no days")];
        let wrong = wrong.map(|(path, message)| json!({ "path": path, "message": message }));
        let details = Payload::of(&json!({ "violations": wrong })).unwrap().get().unwrap();
        let error = RpcError::new(ErrorCode::INVALID_TOOL_ARGS, "wrong: too long; no days")
            .recovery(Recovery::default().details(details));
        let data: ErrorData = convert(&error, "req-1").as_data().unwrap().get().unwrap();
        assert_eq!((&*data.error_type, data.field.as_deref()), ("ValidationError", Some("ticker")));
        assert_eq!(data.suggestions, ["correct `/ticker`: too long", "no days"]);
    }

    proptest! {
        #[test]
        fn every_code_has_one_that_stays(code in any::<i32>()) {
            let ggen = to_ggen(ErrorCode(code));
            prop_assert_eq!(to_ggen(ggen), ggen);
        }
    }
}
