//! What a check found: how well, and what is told of it (MGP §11.3).
//!
//! Applies to: both.

use std::fmt::Display;

use mgp_types::Payload;
use mgp_types::mgp::HealthStatus;
use serde::Serialize;

/// What a check found.
///
/// ```
/// use mgp_lifecycle::{Found, IntoFound};
/// use mgp_types::mgp::HealthStatus;
///
/// assert_eq!(true.into_found().status(), &HealthStatus::Healthy);
/// let lagging = Found::new(HealthStatus::Degraded).value(&serde_json::json!({ "behind_secs": 12 }));
/// assert_eq!(lagging.as_value().as_str(), r#"{"behind_secs":12}"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Found {
    status: HealthStatus,
    value: Payload,
}

impl Found {
    /// A status, told as `true` where it is healthy, as `false` where it is unhealthy, else by its name.
    pub fn new(status: HealthStatus) -> Self {
        let value = match &status {
            HealthStatus::Healthy => Payload::from_trusted("true"),
            HealthStatus::Unhealthy => Payload::from_trusted("false"),
            other => Payload::of(other).unwrap_or_else(|_| Payload::from_trusted("false")),
        };
        Self { status, value }
    }

    /// Tells any other value; one that is no JSON leaves it as it was.
    pub fn value<V: Serialize + ?Sized>(mut self, value: &V) -> Self {
        match Payload::of(value) {
            Ok(value) => self.value = value,
            Err(error) => tracing::warn!(%error, "what a check found is no JSON"),
        }
        self
    }

    /// A figure, failed where it is no JSON.
    pub(super) fn figure<V: Serialize + ?Sized>(figure: &V) -> Self {
        match Payload::of(figure) {
            Ok(value) => Self { status: HealthStatus::Healthy, value },
            Err(error) => Err::<(), _>(error).into_found(),
        }
    }

    /// How well it is.
    #[must_use]
    pub fn status(&self) -> &HealthStatus {
        &self.status
    }

    /// What is told of it.
    #[must_use]
    pub fn as_value(&self) -> &Payload {
        &self.value
    }
}

/// What a check may give back.
#[diagnostic::on_unimplemented(
    message = "a check cannot give back `{Self}`",
    note = "it gives back a `bool`, `()`, a `HealthStatus`, a pair of that and any JSON, a `Found`, or a `Result` of these"
)]
pub trait IntoFound {
    /// What was found.
    fn into_found(self) -> Found;
}

// === impl IntoFound ===

impl IntoFound for Found {
    fn into_found(self) -> Found {
        self
    }
}

/// A check that came to its end is content.
impl IntoFound for () {
    fn into_found(self) -> Found {
        true.into_found()
    }
}

impl IntoFound for bool {
    fn into_found(self) -> Found {
        Found::new(if self { HealthStatus::Healthy } else { HealthStatus::Unhealthy })
    }
}

impl IntoFound for HealthStatus {
    fn into_found(self) -> Found {
        Found::new(self)
    }
}

impl<V: Serialize> IntoFound for (HealthStatus, V) {
    fn into_found(self) -> Found {
        Found::new(self.0).value(&self.1)
    }
}

/// An error is a failed check; its text goes to the log, not to the peer.
impl<T: IntoFound, E: Display> IntoFound for Result<T, E> {
    fn into_found(self) -> Found {
        match self {
            Ok(found) => found.into_found(),
            Err(error) => {
                tracing::warn!(%error, "a health check failed");
                false.into_found()
            }
        }
    }
}
