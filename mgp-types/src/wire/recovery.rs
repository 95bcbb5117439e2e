//! What a caller may do about an error (MGP §14.5).

use super::{ErrorCode, Payload};
use crate::record::{Object, open_enum, record};

open_enum! {
    /// The kind of an error (§14.5).
    pub enum Category {
        /// Permission, access, authentication, validators.
        Security = "security",
        /// The state of the server.
        Lifecycle = "lifecycle",
        /// Limits.
        Resource = "resource",
        /// The request itself.
        Validation = "validation",
        /// A service behind the server.
        External = "external" | "upstream",
    }

    /// How long to wait between attempts (§14.5).
    pub enum RetryStrategy {
        /// Not at all.
        Immediate = "immediate",
        /// The same time again.
        FixedDelay = "fixed_delay",
        /// Twice as long each time.
        ExponentialBackoff = "exponential_backoff" | "exponential",
    }
}

impl RetryStrategy {
    /// The strategy to follow: an unknown one counts as `fixed_delay`.
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
        /// The kind of error.
        opt category: Option<Category>,
        /// Whether trying again makes sense; when false the caller must not.
        opt retryable: Option<bool>,
        /// How long to wait at least, in milliseconds.
        opt retry_after_ms: Option<u64>,
        /// How to wait between attempts.
        opt retry_strategy: Option<RetryStrategy>,
        /// How often to try at most.
        opt max_retries: Option<u32>,
        /// A tool to try when all attempts failed.
        opt fallback_tool: Option<String>,
        /// Facts about this error, defined by the server.
        opt details: Option<Object>,
    }
}

impl Recovery {
    /// The hints that go with a code: all of §14.3, none for codes of JSON-RPC and MCP.
    ///
    /// 2001 is retryable only when a restart follows, 3003, 5000 and 5001 only for tools that are
    /// read-only or idempotent; here they are not, and who knows better says so.
    #[must_use]
    pub fn default_for(code: ErrorCode) -> Option<Self> {
        use RetryStrategy::{ExponentialBackoff, FixedDelay};

        let mut recovery = Self { category: Some(code.category()?), ..Self::default() };
        let (strategy, wait, attempts) = match code {
            ErrorCode::SERVER_NOT_READY | ErrorCode::SERVER_RESTARTING => {
                (FixedDelay, Some(1000), 5)
            }
            // How long a caller must wait for its next token is known to the limiter only.
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

    /// The hints for a tool that is read-only or idempotent, where another attempt does no harm:
    /// 3003, 5000 and 5001 become retryable, all others are as in [`Recovery::default_for`].
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

    /// Reads hints whose figures may be written in any way JSON knows: `5.0`, or more than anybody counts to.
    ///
    /// A fraction is rounded up and what is too large is as much as fits, since each reader has bounds of its own.
    /// `None` where they cannot be read at all.
    #[must_use]
    pub fn read(hints: &Payload) -> Option<Self> {
        let text = hints.as_str();
        // Nearly all are as they should be.
        if let Ok(hints) = serde_json::from_str(text) {
            return Some(hints);
        }
        let mut members: Object = serde_json::from_str(text).ok()?;
        for (name, most) in [("retry_after_ms", u64::MAX), ("max_retries", u32::MAX.into())] {
            if let Some(figure) = members.get(name).and_then(|figure| whole(figure.as_str(), most))
            {
                members.encode(name, &figure).ok()?;
            }
        }
        serde_json::from_str(Payload::of(&members).ok()?.as_str()).ok()
    }

    /// Whether the caller may try again: only when the hints say so.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.retryable == Some(true)
    }

    /// Allows another attempt.
    #[must_use]
    pub fn retry(mut self, strategy: RetryStrategy, after_ms: u64, max_retries: u32) -> Self {
        self.retryable = Some(true);
        self.retry_strategy = Some(strategy);
        self.retry_after_ms = Some(after_ms);
        self.max_retries = Some(max_retries);
        self
    }

    /// Forbids another attempt.
    #[must_use]
    pub fn no_retry(mut self) -> Self {
        self.retryable = Some(false);
        self.retry_strategy = None;
        self.retry_after_ms = None;
        self.max_retries = None;
        self
    }

    /// Replaces the details.
    #[must_use]
    pub fn details(mut self, details: Object) -> Self {
        self.details = Some(details);
        self
    }
}

/// A number that is not negative, as a whole one up to a bound.
fn whole(text: &str, most: u64) -> Option<u64> {
    if let Ok(figure) = text.parse::<u64>() {
        return Some(figure.min(most));
    }
    // Words and texts are no numbers, though some of them read as floats.
    let is_number = text.starts_with(|first: char| first.is_ascii_digit());
    let figure = text.parse::<f64>().ok().filter(|figure| is_number && *figure >= 0.0)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is not negative, and a cast of what is too large gives the largest"
    )]
    let figure = figure.ceil() as u64;
    Some(figure.min(most))
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
    fn figures_are_read_however_json_writes_them() {
        let read = |figure: &str| {
            let text = format!(
                r#"{{"retryable":true,"retry_after_ms":{figure},"max_retries":{figure},"x":1}}"#
            );
            let hints = Recovery::read(&Payload::parse(text).unwrap())?;
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
        assert_eq!(Recovery::read(&Payload::parse("7".to_owned()).unwrap()), None);
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
