//! The refusal of a call whose chunks exceed the size limit in total (MGP §14.3, code 3001: resource exhausted).

use std::sync::Arc;

use mgp_types::service::StreamLimit;
use mgp_types::{ErrorCode, Object, RpcError};

/// The refusal of the chunk that made a call exceed its [`StreamLimit`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the partial results have {size} bytes, and may have {limit}")]
pub(crate) struct StreamTooLong {
    size: u64,
    limit: u64,
    setting: Option<Arc<str>>,
}

impl StreamTooLong {
    pub(super) fn new(size: u64, limit: &StreamLimit) -> Self {
        Self { size, limit: limit.bytes(), setting: limit.setting() }
    }
}

impl From<StreamTooLong> for RpcError {
    fn from(refused: StreamTooLong) -> Self {
        let mut message = refused.to_string();
        if let Some(setting) = &refused.setting {
            message.push_str("; an operator can raise ");
            message.push_str(setting);
        }
        let details = Object::new()
            .with("limit", &refused.limit)
            .with("size", &refused.size)
            .with("of", "partial results")
            .with("started", &true);
        let error = Self::new(ErrorCode::RESOURCE_EXHAUSTED, message).because(refused);
        // Forbid a retry: the call has already run, and would exceed the limit again.
        match error.as_recovery().cloned() {
            Some(hints) => error.recovery(hints.no_retry().details(details)),
            None => error,
        }
    }
}
