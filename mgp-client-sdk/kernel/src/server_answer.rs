//! Checks of the answers of servers: a host receives only answers that it can read.

use mgp_types::service::Reply;
use mgp_types::{ErrorCode, Object, Payload, RpcError};
use serde::de::IgnoredAny;

/// The maximum depth of lists and objects in an answer, so that its message has at most 127 levels. Many readers of
/// JSON refuse more levels, and a host may lose its connection then.
const MAX_DEPTH: usize = 120;

/// Refuses a result that is nested too deeply. An error that is nested too deeply loses its data.
///
/// # Errors
/// Returns the server's error if the answer is one, and 5000 if its result is nested too deeply.
pub(crate) fn limit_depth(answer: Result<Reply, RpcError>) -> Result<Reply, RpcError> {
    match answer {
        Ok(reply) if reply.as_body().is_some_and(|body| is_too_deep(body.as_raw())) => {
            let message = format!("the server's result is nested deeper than {MAX_DEPTH} levels");
            Err(RpcError::new(ErrorCode::UPSTREAM_ERROR, message))
        }
        // The text of an error also has its recovery hints and unknown members.
        Err(error) if Payload::of(&error).is_ok_and(|json| is_too_deep(&json)) => {
            Err(RpcError::new(error.code(), error.message()))
        }
        answer => answer,
    }
}

/// Returns whether lists and objects are nested too deeply for hosts.
pub(crate) fn is_too_deep(json: &Payload) -> bool {
    json.is_deeper_than(MAX_DEPTH)
}

/// Refuses the result of a method that is not an object with a list. The names in `path` lead to the list, through
/// objects.
///
/// # Errors
/// Returns 5000 if the server did not answer with the result of the method.
pub(crate) fn expect_list(reply: Reply, method: &str, path: &[&str]) -> Result<Reply, RpcError> {
    let Reply::Complete(body) = &reply else { return Ok(reply) };
    let (list, objects) = path.split_last().map_or(("", path), |(list, objects)| (*list, objects));
    let mut members: Object =
        body.as_raw().get().map_err(|error| unreadable_result(method, &error))?;
    for name in objects {
        let inner = members.decode(name).map_err(|error| unreadable_result(method, &error))?;
        members = inner.unwrap_or_default();
    }
    match members.decode::<Vec<IgnoredAny>>(list) {
        Ok(Some(_)) => Ok(reply),
        Ok(None) => {
            Err(unreadable_result(method, &RpcError::internal(format!("`{list}` is missing"))))
        }
        Err(error) => Err(unreadable_result(method, &error)),
    }
}

/// Returns the error for an answer of a server that is not the result of a method.
pub(crate) fn unreadable_result(method: &str, error: &RpcError) -> RpcError {
    let message = format!("the server did not answer with the result of `{method}`");
    RpcError::new(ErrorCode::UPSTREAM_ERROR, message).because(error.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(text: impl Into<String>) -> Reply {
        Reply::raw(Payload::from_trusted(text.into()))
    }

    fn nested(levels: usize) -> String {
        format!("{}{}", "[".repeat(levels), "]".repeat(levels))
    }

    #[test]
    fn a_result_that_is_nested_too_deeply_for_hosts_is_refused() {
        let result = |inner: &str| reply(format!(r#"{{"content":[],"a":{inner}}}"#));
        assert!(limit_depth(Ok(result(&nested(MAX_DEPTH - 1)))).is_ok());
        for levels in [MAX_DEPTH, 100_000] {
            let refused = limit_depth(Ok(result(&nested(levels)))).unwrap_err();
            assert_eq!(refused.code(), ErrorCode::UPSTREAM_ERROR, "{levels}");
        }
    }

    #[test]
    fn an_error_that_is_nested_too_deeply_for_hosts_keeps_its_code_and_message() {
        let error = |levels| {
            RpcError::new(ErrorCode(-32000), "gone").data(Payload::from_trusted(nested(levels)))
        };
        let deep = limit_depth(Err(error(3_000))).unwrap_err();
        assert_eq!((deep.code(), deep.message()), (ErrorCode(-32000), "gone"));
        assert!(deep.as_data().is_none());
        assert_eq!(limit_depth(Err(error(3))).unwrap_err(), error(3));
    }

    #[test]
    fn a_result_without_the_list_of_its_method_is_an_error_of_the_server() {
        let prompt = |text: &str| expect_list(reply(text), "prompts/get", &["messages"]);
        let completed =
            |text: &str| expect_list(reply(text), "completion/complete", &["completion", "values"]);
        for text in ["null", "5", "[]", "[[]]", "{}", r#"{"messages":5}"#, r#"{"messages":null}"#] {
            assert_eq!(prompt(text).unwrap_err().code(), ErrorCode::UPSTREAM_ERROR, "{text}");
        }
        assert!(prompt(r#"{"messages":[],"a":1}"#).is_ok());
        for text in ["null", "{}", r#"{"completion":[]}"#, r#"{"completion":{"values":7}}"#] {
            assert_eq!(completed(text).unwrap_err().code(), ErrorCode::UPSTREAM_ERROR, "{text}");
        }
        assert!(completed(r#"{"completion":{"values":["a"]}}"#).is_ok());
    }
}
