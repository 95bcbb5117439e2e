//! The stored form of a key and of the result of its call.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mgp_types::service::{HttpFailure, Reply, is_connection_lost};
use mgp_types::{ErrorCode, Payload, Recovery, RpcError, Timestamp};
use serde::{Deserialize, Serialize};

use crate::retry::Failure;

pub(super) const SPACE: &str = "idempotency";

/// A key as the store keeps it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct StoredKey {
    /// The caller.
    pub(super) owner: String,
    /// The hash of the arguments.
    pub(super) arguments: String,
    /// The time at which its call began, in milliseconds since 1970.
    pub(super) began_ms: u64,
    pub(super) expires_ms: u64,
    /// `None` until the call has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) end: Option<StoredEnd>,
}

/// The end of a call. With neither member its result was too long, or made room for others.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct StoredEnd {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<Payload>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Box<StoredError>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct StoredError {
    code: ErrorCode,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<Payload>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    recovery: Option<Recovery>,
}

impl StoredKey {
    /// Returns the key in place of one that cannot be read; it has no owner, and never runs again.
    pub(super) fn unreadable(ttl: Duration) -> Self {
        let began_ms = now_ms();
        let expires_ms = began_ms.saturating_add(mgp_types::millis(ttl));
        Self { owner: String::new(), arguments: String::new(), began_ms, expires_ms, end: None }
    }

    pub(super) fn began_at(&self) -> Timestamp {
        (UNIX_EPOCH + Duration::from_millis(self.began_ms)).into()
    }
}

impl StoredEnd {
    pub(super) fn bytes(&self) -> usize {
        let result = self.result.as_ref().map_or(0, |result| result.as_str().len());
        let error = self.error.as_ref().map_or(0, |error| {
            error.message.len() + error.data.as_ref().map_or(0, |data| data.as_str().len())
        });
        result + error
    }

    /// Returns the stored answer; `None` if it was not kept.
    pub(super) fn answer(self) -> Option<Result<Reply, RpcError>> {
        if let Some(result) = self.result {
            return Some(Ok(Reply::raw(result)));
        }
        let StoredError { code, message, data, recovery } = *self.error?;
        let mut error = RpcError::new(code, message);
        if let Some(data) = data {
            error = error.data(data);
        }
        Some(Err(match recovery {
            Some(recovery) => error.recovery(recovery),
            None => error,
        }))
    }
}

/// The effect of the outcome of a run on its key.
pub(super) enum RunEnd {
    /// The call did not run, so the key is free again.
    NotRun,
    /// The call may have run.
    Unknown,
    Ended(StoredEnd),
}

impl RunEnd {
    pub(super) fn of(outcome: &Result<Reply, RpcError>) -> Self {
        if Failure::of(outcome).is_some_and(|failure| !failure.may_have_run()) {
            return Self::NotRun;
        }
        match outcome {
            Ok(Reply::Complete(body)) => {
                let text = String::from_utf8(body.to_json()).unwrap_or_default();
                let result = Some(Payload::from_trusted(text));
                Self::Ended(StoredEnd { result, error: None })
            }
            // The caller is asked first, and sends the call again with the answers.
            Ok(_) => Self::NotRun,
            Err(error) if is_lost(error) => Self::Unknown,
            Err(error) => Self::Ended(StoredEnd {
                result: None,
                error: Some(Box::new(StoredError {
                    code: error.code(),
                    message: error.message().to_owned(),
                    data: error.as_data().cloned(),
                    recovery: error.as_recovery().cloned(),
                })),
            }),
        }
    }
}

/// Returns whether an error leaves open whether the call ran.
fn is_lost(error: &RpcError) -> bool {
    let is_timeout = matches!(
        error.code(),
        ErrorCode::TIMEOUT | ErrorCode::UPSTREAM_TIMEOUT | ErrorCode::UPSTREAM_UNAVAILABLE
    );
    is_timeout || is_connection_lost(error) || HttpFailure::from_error(error).is_some()
}

/// Returns the current time in milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, mgp_types::millis)
}
