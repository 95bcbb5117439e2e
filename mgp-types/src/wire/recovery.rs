//! Recovery hints: what a caller can do about an error (MGP §14.5).

use super::code::Category;
use super::{ErrorCode, Payload};
use crate::record::{Object, open_enum, record};

open_enum! {
    /// The delay between attempts (§14.5).
    pub enum RetryStrategy {
        /// No delay.
        Immediate = "immediate",
        /// The same delay each time.
        FixedDelay = "fixed_delay",
        /// A delay that doubles each time.
        ExponentialBackoff = "exponential_backoff" | "exponential",
    }
}

impl RetryStrategy {
    /// Returns the strategy that the caller must apply: an unknown strategy is treated like `fixed_delay`.
    #[must_use]
    pub fn effective(&self) -> Self {
        match self {
            Self::Other(_) => Self::FixedDelay,
            known => known.clone(),
        }
    }
}

record! {
    /// Recovery hints of an error (`error.data._mgp`, §14.4).
    pub struct Recovery {
        /// The category of the error.
        opt category: Option<Category>,
        /// `true` if a retry might succeed; if `false`, the caller must not retry.
        opt retryable: Option<bool>,
        /// The minimum delay before a retry, in milliseconds.
        opt retry_after_ms: Option<u64>,
        /// The way in which the delay grows from retry to retry.
        opt retry_strategy: Option<RetryStrategy>,
        /// The maximum number of retries.
        opt max_retries: Option<u32>,
        /// The name of a tool to try after all attempts failed.
        opt fallback_tool: Option<String>,
        /// Details of this error, defined by the server.
        opt details: Option<Object>,
    }
}

/// The members of [`Recovery`].
const MEMBERS: [&str; 7] = [
    "category",
    "retryable",
    "retry_after_ms",
    "retry_strategy",
    "max_retries",
    "fallback_tool",
    "details",
];

/// Returns whether a member of [`Recovery`] can be decoded.
fn is_readable(name: &str, value: &Payload) -> bool {
    let mut alone = Object::new();
    alone.insert(name, value.clone());
    Payload::of(&alone).is_ok_and(|alone| serde_json::from_str::<Recovery>(alone.as_str()).is_ok())
}

impl Recovery {
    /// Returns the default hints for a code of MGP; `None` for any other code, e.g. of JSON-RPC or MCP.
    ///
    /// By default, 2001 (the server is stopping), 3003, 5000 and 5001 (timeouts and failures during the call) must not
    /// be retried. A retry after 2001 helps only if the server restarts. A retry after the other three codes is safe
    /// only for read-only or idempotent tools. Code that knows more about the tool overrides the hints.
    #[must_use]
    pub fn default_for(code: ErrorCode) -> Option<Self> {
        use RetryStrategy::{ExponentialBackoff, FixedDelay};

        let mut recovery = Self { category: Some(code.category()?), ..Self::default() };
        let (strategy, wait, attempts) = match code {
            ErrorCode::SERVER_NOT_READY | ErrorCode::SERVER_RESTARTING => {
                (FixedDelay, Some(1000), 5)
            }
            // The default contains no delay, because only the rate limiter knows how long the caller must wait.
            ErrorCode::RATE_LIMITED => (ExponentialBackoff, None, 3),
            ErrorCode::RESOURCE_EXHAUSTED | ErrorCode::UPSTREAM_UNAVAILABLE => {
                (ExponentialBackoff, Some(1000), 3)
            }
            _ => {
                recovery.retryable = Some(false);
                return Some(recovery);
            }
        };
        recovery.retryable = Some(true);
        recovery.retry_strategy = Some(strategy);
        recovery.retry_after_ms = wait;
        recovery.max_retries = Some(attempts);
        Some(recovery)
    }

    /// Returns the hints for a tool that is read-only or idempotent, and can therefore be retried without harm. 3003
    /// (timeout), 5000 and 5001 (upstream error and timeout) become retryable; the hints of all other codes are those
    /// of [`Recovery::default_for`].
    #[must_use]
    pub fn for_repeatable(code: ErrorCode) -> Option<Self> {
        let recovery = Self::default_for(code)?;
        Some(match code {
            ErrorCode::TIMEOUT | ErrorCode::UPSTREAM_ERROR | ErrorCode::UPSTREAM_TIMEOUT => {
                recovery.retry(RetryStrategy::ExponentialBackoff, 1000, 3)
            }
            _ => recovery,
        })
    }

    /// Reads hints. A member that cannot be read is left out, so that the other members, e.g. `retryable`, still apply.
    ///
    /// The numbers can have any JSON form, e.g. `5.0`. A fraction is rounded up, and a number that is too large is
    /// clamped to the range of the member's type. Returns `None` if the hints are not an object.
    #[must_use]
    pub fn from_payload(hints: &Payload) -> Option<Self> {
        let text = hints.as_str();
        // Try the strict decoder first, because nearly all hints are well-formed.
        if let Ok(hints) = serde_json::from_str(text) {
            return Some(hints);
        }
        let mut members: Object = serde_json::from_str(text).ok()?;
        for (name, limit) in [("retry_after_ms", u64::MAX), ("max_retries", u32::MAX.into())] {
            if let Some(figure) = members.get(name).and_then(|figure| whole(figure.as_str(), limit))
            {
                members.encode(name, &figure).ok()?;
            }
        }
        for name in MEMBERS {
            if members.get(name).is_some_and(|value| !is_readable(name, value)) {
                members.remove(name);
            }
        }
        serde_json::from_str(Payload::of(&members).ok()?.as_str()).ok()
    }

    /// Returns whether the hints permit a retry; `false` if they contain no statement about it.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.retryable == Some(true)
    }

    /// Allows a retry, with a strategy, a delay and a maximum number of repetitions.
    #[must_use]
    pub fn retry(mut self, strategy: RetryStrategy, after_ms: u64, max_retries: u32) -> Self {
        self.retryable = Some(true);
        self.retry_strategy = Some(strategy);
        self.retry_after_ms = Some(after_ms);
        self.max_retries = Some(max_retries);
        self
    }

    /// Forbids a retry, and removes the strategy, the delay and the maximum number of repetitions.
    #[must_use]
    pub fn no_retry(mut self) -> Self {
        self.retryable = Some(false);
        self.retry_strategy = None;
        self.retry_after_ms = None;
        self.max_retries = None;
        self
    }

    /// Sets the details, which the server defines.
    #[must_use]
    pub fn details(mut self, details: Object) -> Self {
        self.details = Some(details);
        self
    }
}

/// Converts a non-negative JSON number to an integer: rounds it up, and limits it to `limit`. Returns `None` for any
/// other text.
fn whole(text: &str, limit: u64) -> Option<u64> {
    if let Ok(figure) = text.parse::<u64>() {
        return Some(figure.min(limit));
    }
    // Exclude texts such as `NaN` or `inf`: they parse as a float, but are not JSON numbers.
    let is_number = text.starts_with(|first: char| first.is_ascii_digit());
    let figure = text.parse::<f64>().ok().filter(|figure| is_number && *figure >= 0.0)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is not negative, and a cast of what is too large gives the largest"
    )]
    let figure = figure.ceil() as u64;
    Some(figure.min(limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(code: i32, expected: &str) {
        let recovery = Recovery::default_for(ErrorCode(code));
        assert_eq!(serde_json::to_string(&recovery).unwrap(), expected, "{code}");
    }

    #[test]
    fn hints_of_each_code() {
        for code in [1000, 1001, 1002, 1003, 1010, 1011] {
            check(code, r#"{"category":"security","retryable":false}"#);
        }
        for code in [4000, 4001, 4002, 4003, 4004, 4100, 4101, 4102] {
            check(code, r#"{"category":"validation","retryable":false}"#);
        }
        check(3002, r#"{"category":"resource","retryable":false}"#);
        for code in [2000, 2002] {
            check(
                code,
                r#"{"category":"lifecycle","retryable":true,"retry_after_ms":1000,"retry_strategy":"fixed_delay","max_retries":5}"#,
            );
        }
        check(2001, r#"{"category":"lifecycle","retryable":false}"#);
        check(
            3000,
            r#"{"category":"resource","retryable":true,"retry_strategy":"exponential_backoff","max_retries":3}"#,
        );
        check(
            5002,
            r#"{"category":"external","retryable":true,"retry_after_ms":1000,"retry_strategy":"exponential_backoff","max_retries":3}"#,
        );
        check(5001, r#"{"category":"external","retryable":false}"#);
        check(-32601, "null");
        for code in [3003, 5000, 5001] {
            assert!(!Recovery::default_for(ErrorCode(code)).unwrap().is_retryable(), "{code}");
            assert!(Recovery::for_repeatable(ErrorCode(code)).unwrap().is_retryable(), "{code}");
        }
        assert!(!Recovery::for_repeatable(ErrorCode(1000)).unwrap().is_retryable());
    }

    #[test]
    fn numbers_are_read_in_any_json_form() {
        let read = |figure: &str| {
            let text = format!(
                r#"{{"retryable":true,"retry_after_ms":{figure},"max_retries":{figure},"x":1}}"#
            );
            let hints = Recovery::from_payload(&Payload::parse(text).unwrap())?;
            assert!(hints.is_retryable() && hints.extra.len() == 1);
            Some((hints.retry_after_ms?, hints.max_retries?))
        };
        for (figure, expected) in [
            ("5", Some((5, 5))),
            ("5.0", Some((5, 5))),
            ("4.2", Some((5, 5))),
            ("1e3", Some((1000, 1000))),
            ("1000000000000", Some((1_000_000_000_000, u32::MAX))),
            ("1e99", Some((u64::MAX, u32::MAX))),
            ("99999999999999999999", Some((u64::MAX, u32::MAX))),
            ("-1", None),
            ("\"5\"", None),
            ("[5]", None),
        ] {
            assert_eq!(read(figure), expected, "{figure}");
        }
        assert_eq!(Recovery::from_payload(&Payload::parse("7".to_owned()).unwrap()), None);
    }

    #[test]
    fn a_hint_that_cannot_be_read_leaves_the_others_in_force() {
        let read =
            |text: &str| Recovery::from_payload(&Payload::parse(text.to_owned()).unwrap()).unwrap();
        let wrong = read(
            r#"{"category":7,"retryable":false,"retry_after_ms":-1,"retry_strategy":{},"max_retries":"3","fallback_tool":[],"details":"x","more":1}"#,
        );
        let mut expected = Recovery { retryable: Some(false), ..Recovery::default() };
        expected.extra.encode("more", &1).unwrap();
        assert_eq!(wrong, expected);
        let unclear = read(r#"{"retryable":"no","max_retries":3}"#);
        assert_eq!((unclear.retryable, unclear.max_retries), (None, Some(3)));
        // Each name in `MEMBERS` is a field of `Recovery`, so none of the members is in `extra`.
        let all = MEMBERS.map(|name| format!(r#""{name}":null"#)).join(",");
        assert!(read(&format!("{{{all}}}")).extra.is_empty());
    }

    #[test]
    fn other_spellings_are_read() {
        let recovery: Recovery =
            serde_json::from_str(r#"{"category":"upstream","retry_strategy":"exponential"}"#)
                .unwrap();
        assert_eq!(recovery.category, Some(Category::External));
        assert_eq!(recovery.retry_strategy, Some(RetryStrategy::ExponentialBackoff));
        assert_eq!(RetryStrategy::from("linear").effective(), RetryStrategy::FixedDelay);
    }
}
