//! Proposal 5 (`idempotency`): a call with a key runs once, even if it is sent several times.

use serde::{Deserialize, Serialize};

use super::Member;
use crate::mgp::Extension;
use crate::{RpcError, Timestamp};

const MAX_KEY_BYTES: usize = 128;

/// The key that a caller chooses for a call. Of several calls with the same key, only the first runs, as long as the
/// server remembers the key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IdempotencyKey(pub String);

impl IdempotencyKey {
    /// Checks the form: 1 to 128 letters, digits, `_`, `-`, `:` and `.`.
    ///
    /// ```
    /// use mgp_types::proposal::IdempotencyKey;
    ///
    /// assert!(IdempotencyKey("op-2026-03-15:abc.1".to_owned()).check().is_ok());
    /// assert!(IdempotencyKey("two words".to_owned()).check().is_err());
    /// ```
    ///
    /// # Errors
    /// Returns −32602 (invalid params) if the key has another form.
    pub fn check(&self) -> Result<(), RpcError> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-:.".contains(&byte);
        if self.0.is_empty() || self.0.len() > MAX_KEY_BYTES || !self.0.bytes().all(is_allowed) {
            return Err(RpcError::invalid_params(
                "`idempotency_key` must be 1 to 128 letters, digits, `_`, `-`, `:` or `.`",
            ));
        }
        Ok(())
    }
}

impl Member for IdempotencyKey {
    const EXTENSION: Extension = Extension::Idempotency;
    const NAME: &'static str = "idempotency_key";
}

/// The time, in seconds, for which the server should remember the key of a call; the server can limit it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IdempotencyTtl(pub u64);

impl Member for IdempotencyTtl {
    const EXTENSION: Extension = Extension::Idempotency;
    const NAME: &'static str = "idempotency_ttl_seconds";
}

/// The mark of a result that was taken from an earlier call with the same key, so that the tool did not run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WasReplay(pub bool);

impl Member for WasReplay {
    const EXTENSION: Extension = Extension::Idempotency;
    const NAME: &'static str = "was_replay";
}

/// The time at which the first call with the key began to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OriginalTimestamp(pub Timestamp);

impl Member for OriginalTimestamp {
    const EXTENSION: Extension = Extension::Idempotency;
    const NAME: &'static str = "original_timestamp";
}

/// The idempotency key in the header `X-Idempotency-Key` of an HTTP request; stored in the
/// extensions of the call's context.
#[derive(Clone, Debug)]
pub struct IdempotencyHeader(pub IdempotencyKey);
