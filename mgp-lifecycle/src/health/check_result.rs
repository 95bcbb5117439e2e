//! The result of a health check: a status and a value (MGP §11.3).

use std::fmt::Display;

use mgp_types::Payload;
use mgp_types::mgp::HealthStatus;
use serde::Serialize;

/// The result of a health check.
///
/// ```
/// use mgp_lifecycle::{CheckResult, IntoCheckResult};
/// use mgp_types::mgp::HealthStatus;
///
/// assert_eq!(true.into_check_result().status(), &HealthStatus::Healthy);
/// let lagging = CheckResult::new(HealthStatus::Degraded).value(&serde_json::json!({ "behind_secs": 12 }));
/// assert_eq!(lagging.as_value().as_str(), r#"{"behind_secs":12}"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct CheckResult {
    status: HealthStatus,
    value: Payload,
}

impl CheckResult {
    /// Creates a result; its value is `true` if healthy, `false` if unhealthy, else the status's name.
    pub fn new(status: HealthStatus) -> Self {
        let value = match &status {
            HealthStatus::Healthy => Payload::from_trusted("true"),
            HealthStatus::Unhealthy => Payload::from_trusted("false"),
            other => Payload::of(other).unwrap_or_else(|_| Payload::from_trusted("false")),
        };
        Self { status, value }
    }

    /// Replaces the value. A value that cannot be written as JSON is ignored, and the error is logged.
    pub fn value<V: Serialize + ?Sized>(mut self, value: &V) -> Self {
        match Payload::of(value) {
            Ok(value) => self.value = value,
            Err(error) => tracing::warn!(%error, "health check value is not valid JSON"),
        }
        self
    }

    /// Creates the result for a resource. It is unhealthy if the value cannot be encoded as JSON.
    pub(super) fn resource<V: Serialize + ?Sized>(value: &V) -> Self {
        match Payload::of(value) {
            Ok(value) => Self { status: HealthStatus::Healthy, value },
            Err(error) => Err::<(), _>(error).into_check_result(),
        }
    }

    /// Returns the status that the check found.
    #[must_use]
    pub fn status(&self) -> &HealthStatus {
        &self.status
    }

    /// Returns the value that is sent to peers.
    #[must_use]
    pub fn as_value(&self) -> &Payload {
        &self.value
    }
}

/// Types that a health check can return.
#[diagnostic::on_unimplemented(
    message = "a check cannot return `{Self}`",
    note = "it returns a `bool`, `()`, a `HealthStatus`, a pair of that and any JSON, a `CheckResult`, or a `Result` of these"
)]
pub trait IntoCheckResult {
    /// Converts the value to the result of a check.
    fn into_check_result(self) -> CheckResult;
}

impl IntoCheckResult for CheckResult {
    fn into_check_result(self) -> CheckResult {
        self
    }
}

/// A check that returns `()` always succeeds.
impl IntoCheckResult for () {
    fn into_check_result(self) -> CheckResult {
        true.into_check_result()
    }
}

impl IntoCheckResult for bool {
    fn into_check_result(self) -> CheckResult {
        CheckResult::new(if self { HealthStatus::Healthy } else { HealthStatus::Unhealthy })
    }
}

impl IntoCheckResult for HealthStatus {
    fn into_check_result(self) -> CheckResult {
        CheckResult::new(self)
    }
}

impl<V: Serialize> IntoCheckResult for (HealthStatus, V) {
    fn into_check_result(self) -> CheckResult {
        CheckResult::new(self.0).value(&self.1)
    }
}

/// An error means that the check failed. Its text is logged, but not sent to the peer.
impl<T: IntoCheckResult, E: Display> IntoCheckResult for Result<T, E> {
    fn into_check_result(self) -> CheckResult {
        match self {
            Ok(found) => found.into_check_result(),
            Err(error) => {
                tracing::warn!(%error, "health check failed");
                false.into_check_result()
            }
        }
    }
}
