//! What an attempt that failed says about trying again: an error, or a refusal that came as a result (MGP §14.5).
//!
//! Applies to: outbound.

use mgp_types::service::{Body, Reply};
use mgp_types::{ErrorCode, Recovery, RpcError};
use serde::Deserialize;

/// What a call ends with.
pub(super) type Outcome = Result<Reply, RpcError>;

/// A failure with what its maker says about trying again.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Failure {
    pub(super) code: ErrorCode,
    pub(super) hints: Recovery,
}

/// The longest result that is looked at: a refusal is short, and a long result is none.
const REFUSAL_MAX: usize = 8 << 10;

impl Failure {
    /// The failure in an outcome, if there is one.
    pub(super) fn of(outcome: &Outcome) -> Option<Self> {
        match outcome {
            Err(error) => {
                let hints = error.as_recovery().cloned().unwrap_or_default();
                Some(Self { code: error.code(), hints })
            }
            Ok(Reply::Complete(body)) => Self::refused(body),
            Ok(_) => None,
        }
    }

    /// A refusal that came as a result, as a server tells it to a client without MGP.
    fn refused(body: &Body) -> Option<Self> {
        #[derive(Deserialize)]
        struct Said {
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
            content: Recovery,
        }
        let raw = body.as_raw().as_str();
        // The look is cheaper than the parse, and most results have neither word.
        if raw.len() > REFUSAL_MAX || !raw.contains("\"status\"") || !raw.contains("\"isError\"") {
            return None;
        }
        let said: Said = serde_json::from_str(raw).ok()?;
        let Content { status, code } = said.content.filter(|_| said.is_error)?;
        if !matches!(&*status, "rejected" | "denied") || code.0 == 0 {
            return None;
        }
        let hints = serde_json::from_str::<Hints>(raw).map(|hints| hints.content);
        Some(Self { code, hints: hints.unwrap_or_default() })
    }

    /// Whether the call may have run: only some codes say that it never started, and only if nothing contradicts them.
    pub(super) fn may_have_run(&self) -> bool {
        let details = self.hints.details.as_ref();
        let started = details.and_then(|details| details.decode::<bool>("started").ok().flatten());
        started.unwrap_or(
            !matches!(self.code.0, 1000..=1099 | 2000..=2002 | 3000..=3002 | 4000..=4199),
        )
    }
}

/// Whether a result says that the tool failed.
pub(super) fn says_error(body: &Body) -> bool {
    #[derive(Deserialize)]
    struct Said {
        #[serde(rename = "isError", default)]
        is_error: bool,
    }
    serde_json::from_str(body.as_raw().as_str()).is_ok_and(|Said { is_error }| is_error)
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
        check(&refusal(r#","code":3001,"retryable":true,"max_retries":1e99"#), Some((3001, false)));
        check(&refusal(""), None);
        check(&refusal(r#","code":0"#), None);
        // A tool that ran and failed, and one that speaks of refusals.
        check(r#"{"content":[{"type":"text","text":"no such file"}],"isError":true}"#, None);
        check(r#"{"structuredContent":{"status":"open","code":3000},"isError":true}"#, None);
        check(
            r#"{"structuredContent":{"status":"rejected","code":3000,"retryable":true},"isError":false}"#,
            None,
        );
        check(&format!(r#"{{"x":"{}","status":1,"isError":true}}"#, "y".repeat(REFUSAL_MAX)), None);
        check("7", None);
    }

    #[test]
    fn few_codes_say_that_a_call_never_started() {
        let failure = |code: i32, details: &str| Failure {
            code: ErrorCode(code),
            hints: serde_json::from_str(&format!(r#"{{"details":{details}}}"#)).unwrap(),
        };
        for code in ErrorCode::KNOWN {
            let never = matches!(code.0, 1000..=1011 | 2000..=2002 | 3000..=3002 | 4000..=4102);
            assert_eq!(failure(code.0, "{}").may_have_run(), !never, "{code}");
            assert!(failure(code.0, r#"{"started":true}"#).may_have_run(), "{code}");
            assert!(!failure(code.0, r#"{"started":false}"#).may_have_run(), "{code}");
            assert_eq!(failure(code.0, r#"{"started":"no"}"#).may_have_run(), !never, "{code}");
        }
        assert!(failure(-1, "{}").may_have_run() && failure(9999, "{}").may_have_run());
    }
}
