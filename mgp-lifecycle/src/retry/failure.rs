//! The recovery hints of a failed attempt, from an error or from a refusal that was sent as a result (MGP §14.5).

use mgp_types::proposal::StructuredError;
use mgp_types::service::{Body, HttpFailure, Reply, is_connection_lost};
use mgp_types::{ErrorCode, Object, Payload, Recovery, RpcError};
use serde::Deserialize;

pub(crate) type Outcome = Result<Reply, RpcError>;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    pub(crate) code: ErrorCode,
    pub(crate) hints: Recovery,
}

/// Maximum size, in bytes, of a result that is examined for a refusal.
const MAX_REFUSAL_BYTES: usize = 8 << 10;

impl Failure {
    /// Returns the failure that an outcome represents; `None` if the call succeeded.
    pub(crate) fn of(outcome: &Outcome) -> Option<Self> {
        match outcome {
            Err(error) => Some(Self { code: error.code(), hints: hints(error) }),
            Ok(Reply::Complete(body)) => Self::from_result(body),
            Ok(_) => None,
        }
    }

    /// Reads a refusal that was sent as a result, which is the form for clients without MGP.
    fn from_result(body: &Body) -> Option<Self> {
        #[derive(Deserialize)]
        struct Refused {
            #[serde(rename = "isError", default)]
            is_error: bool,
            #[serde(rename = "structuredContent")]
            content: Option<Content>,
        }
        #[derive(Deserialize)]
        struct Content {
            status: String,
            code: ErrorCode,
        }
        #[derive(Deserialize)]
        struct Hints {
            #[serde(rename = "structuredContent")]
            content: Payload,
        }
        let raw = body.as_raw().as_str();
        // Search the text before parsing it, because most results have neither member.
        if raw.len() > MAX_REFUSAL_BYTES
            || !raw.contains("\"status\"")
            || !raw.contains("\"isError\"")
        {
            return None;
        }
        let refused: Refused = serde_json::from_str(raw).ok()?;
        let Content { status, code } = refused.content.filter(|_| refused.is_error)?;
        if !matches!(&*status, "rejected" | "denied") || code.0 == 0 {
            return None;
        }
        let hints = serde_json::from_str::<Hints>(raw).ok();
        let hints = hints.and_then(|hints| Recovery::from_payload(&hints.content));
        Some(Self { code, hints: hints.unwrap_or_default() })
    }

    /// Returns whether the call might have run. If the refusal contains `details.started`, that value decides;
    /// otherwise only some codes mean that the call did not start.
    pub(crate) fn may_have_run(&self) -> bool {
        let details = self.hints.details.as_ref();
        let started = details.and_then(|details| details.decode::<bool>("started").ok().flatten());
        started.unwrap_or(!self.code.is_refusal())
    }
}

/// Returns the recovery hints of an error. After a lost connection, or a status from 500 on without a JSON-RPC error,
/// the call might have run, so `details.started` is set. After a lost connection the hints depend only on the code, if
/// it has any.
fn hints(error: &RpcError) -> Recovery {
    // A peer that supports only structured errors sends no recovery hints, so derive the hints from its structured
    // error.
    let structured = || StructuredError::in_error(error)?.to_error().as_recovery().cloned();
    let sent = error.as_recovery().cloned().or_else(structured).unwrap_or_default();
    match HttpFailure::from_error(error) {
        // The connection was lost, so the peer could not send hints. Whether to retry depends on whether the tool can
        // run twice without harm.
        Some(HttpFailure::ConnectionLost) => {
            mark_started(Recovery::for_repeatable(error.code()).unwrap_or(sent))
        }
        None if is_connection_lost(error) => {
            mark_started(Recovery::default_for(error.code()).unwrap_or(sent))
        }
        // A proxy can answer with 5xx to a request that it has already forwarded, so the call might have run.
        Some(HttpFailure::Status(500..)) => mark_started(sent),
        _ => sent,
    }
}

fn mark_started(mut hints: Recovery) -> Recovery {
    let details = hints.details.get_or_insert_with(Object::new);
    details.insert("started", Payload::from_trusted("true"));
    hints
}

#[cfg(test)]
mod tests {
    use mgp_types::Payload;

    use super::*;

    #[track_caller]
    fn check(result: &str, expected: Option<(i32, bool)>) {
        let found = Failure::of(&Ok(Reply::raw(Payload::parse(result.to_owned()).unwrap())));
        let found = found.map(|failure| (failure.code.0, failure.hints.is_retryable()));
        assert_eq!(found, expected, "{result}");
    }

    #[test]
    fn a_refusal_is_found_in_a_result() {
        let refusal = |rest: &str| {
            format!(
                r#"{{"content":[],"structuredContent":{{"status":"rejected"{rest}}},"isError":true}}"#
            )
        };
        check(&refusal(r#","code":3001,"retryable":true,"retry_after_ms":50"#), Some((3001, true)));
        check(
            &refusal(r#","code":1001,"retryable":false,"name":"ACCESS_DENIED""#),
            Some((1001, false)),
        );
        check(&refusal(r#","code":3001"#), Some((3001, false)));
        check(&refusal(r#","code":3001,"retryable":"yes""#), Some((3001, false)));
        check(&refusal(r#","code":3001,"retryable":true,"max_retries":1e99"#), Some((3001, true)));
        check(&refusal(r#","code":3001,"retryable":true,"max_retries":-1"#), Some((3001, true)));
        check(&refusal(""), None);
        check(&refusal(r#","code":0"#), None);
        // A tool that ran and failed is not a refusal, and neither is a result that only mentions refusals.
        check(r#"{"content":[{"type":"text","text":"no such file"}],"isError":true}"#, None);
        check(r#"{"structuredContent":{"status":"open","code":3000},"isError":true}"#, None);
        check(
            r#"{"structuredContent":{"status":"rejected","code":3000,"retryable":true},"isError":false}"#,
            None,
        );
        check(
            &format!(r#"{{"x":"{}","status":1,"isError":true}}"#, "y".repeat(MAX_REFUSAL_BYTES)),
            None,
        );
        check("7", None);
    }

    /// Checks whether a retry can help after an error, and whether the call might have run.
    #[track_caller]
    fn check_error(error: &RpcError, expected: (bool, bool)) {
        let failure = Failure::of(&Err(error.clone())).unwrap();
        assert_eq!((failure.hints.is_retryable(), failure.may_have_run()), expected, "{error:?}");
    }

    #[test]
    fn a_call_lost_in_transit_may_have_run() {
        use mgp_types::service::{connection_closed, connection_lost};
        check_error(&connection_closed("it is gone"), (true, false));
        check_error(&connection_lost("it died"), (true, true));
        // If a peer sends an error with the same text, this does not mean that our connection was lost.
        let sent = connection_lost("it died");
        let sent =
            RpcError::new(sent.code(), "it died").recovery(sent.as_recovery().unwrap().clone());
        check_error(&sent, (false, true));
        check_error(
            &RpcError::new(ErrorCode::UPSTREAM_ERROR, "cut").because(HttpFailure::ConnectionLost),
            (true, true),
        );
        check_error(&RpcError::new(ErrorCode::UPSTREAM_ERROR, "ran"), (false, true));
    }

    #[test]
    fn a_503_of_a_proxy_does_not_prove_that_a_call_never_started() {
        let status = |code, status| RpcError::new(code, "no").because(HttpFailure::Status(status));
        check_error(&status(ErrorCode::SERVER_NOT_READY, 503), (true, true));
        check_error(&status(ErrorCode::UPSTREAM_ERROR, 502), (false, true));
        check_error(&status(ErrorCode::SERVER_NOT_READY, 408), (true, false));
        check_error(&status(ErrorCode::RATE_LIMITED, 429), (true, false));
        // The server itself sent this error, and not a proxy.
        let answered = RpcError::new(ErrorCode::SERVER_NOT_READY, "no");
        check_error(&answered.because(HttpFailure::StatusWithError(503)), (true, false));
    }

    #[test]
    fn few_codes_prove_that_a_call_never_started() {
        let failure = |code: i32, details: &str| Failure {
            code: ErrorCode(code),
            hints: serde_json::from_str(&format!(r#"{{"details":{details}}}"#)).unwrap(),
        };
        for code in ErrorCode::KNOWN {
            let never = matches!(code.0, 1000..=1011 | 2000..=2002 | 3000..=3002 | 4000..=4003);
            assert_eq!(failure(code.0, "{}").may_have_run(), !never, "{code}");
            assert!(failure(code.0, r#"{"started":true}"#).may_have_run(), "{code}");
            assert!(!failure(code.0, r#"{"started":false}"#).may_have_run(), "{code}");
            assert_eq!(failure(code.0, r#"{"started":"no"}"#).may_have_run(), !never, "{code}");
        }
        // A server may use codes that the protocol does not define for calls that had effects, so a call with such a
        // code may have run.
        for code in [-1, 1004, 1099, 2003, 2099, 9999] {
            assert!(failure(code, "{}").may_have_run(), "{code}");
        }
    }
}
