//! What an attempt that failed says about trying again: an error, or a refusal that came as a result (MGP §14.5).
//!
//! Applies to: outbound.

use mgp_types::service::{Body, HttpFault, Reply, is_lost};
use mgp_types::{ErrorCode, Object, Payload, Recovery, RpcError};
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
            Err(error) => Some(Self { code: error.code(), hints: hints(error) }),
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
            content: Payload,
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
        let hints = serde_json::from_str::<Hints>(raw).ok();
        let hints = hints.and_then(|hints| Recovery::read(&hints.content));
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

/// What an error says about trying again, and what we know of it that its code does not say.
fn hints(error: &RpcError) -> Recovery {
    let said = error.as_recovery().cloned().unwrap_or_default();
    match HttpFault::of(error) {
        // It was lost on this side: who knows the tool decides, and nobody else said that it must not be tried again.
        Some(HttpFault::Cut) => started(Recovery::for_repeatable(error.code()).unwrap_or(said)),
        None if is_lost(error) => started(Recovery::default_for(error.code()).unwrap_or(said)),
        // Proxies say 503 also of requests that they had passed on.
        Some(HttpFault::Status(500..)) => started(said),
        _ => said,
    }
}

/// The same of a call that may have run.
fn started(mut hints: Recovery) -> Recovery {
    let details = hints.details.get_or_insert_with(Object::new);
    details.insert("started", Payload::from_trusted("true"));
    hints
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
        check(&refusal(r#","code":3001,"retryable":true,"max_retries":1e99"#), Some((3001, true)));
        check(&refusal(r#","code":3001,"retryable":true,"max_retries":-1"#), Some((3001, false)));
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

    /// Whether trying again may help, and whether the call may have run.
    #[track_caller]
    fn met(error: &RpcError, expected: (bool, bool)) {
        let failure = Failure::of(&Err(error.clone())).unwrap();
        assert_eq!((failure.hints.is_retryable(), failure.may_have_run()), expected, "{error:?}");
    }

    #[test]
    fn a_call_that_was_lost_on_its_way_may_have_run() {
        use mgp_types::service::{closed, lost};
        met(&closed("it is gone"), (true, false));
        met(&lost("it died"), (true, true));
        // A peer that says the same is taken at its word.
        let said = lost("it died");
        let said =
            RpcError::new(said.code(), "it died").recovery(said.as_recovery().unwrap().clone());
        met(&said, (false, true));
        met(&RpcError::new(ErrorCode::UPSTREAM_ERROR, "cut").because(HttpFault::Cut), (true, true));
        met(&RpcError::new(ErrorCode::UPSTREAM_ERROR, "ran"), (false, true));
    }

    #[test]
    fn a_503_of_a_proxy_does_not_say_that_a_call_never_started() {
        let status = |code, status| RpcError::new(code, "no").because(HttpFault::Status(status));
        met(&status(ErrorCode::SERVER_NOT_READY, 503), (true, true));
        met(&status(ErrorCode::UPSTREAM_ERROR, 502), (false, true));
        met(&status(ErrorCode::SERVER_NOT_READY, 408), (true, false));
        met(&status(ErrorCode::RATE_LIMITED, 429), (true, false));
        // The server itself says it.
        let answered = RpcError::new(ErrorCode::SERVER_NOT_READY, "no");
        met(&answered.because(HttpFault::Answered(503)), (true, false));
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
