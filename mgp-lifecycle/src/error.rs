//! Why this crate refuses a call, and the one place where reasons become codes (MGP §14.3).
//!
//! Applies to: both.

use std::time::Duration;

use mgp_types::{ErrorCode, RpcError};

/// A refusal of a lifecycle layer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Too many tool calls run and wait.
    #[error("too many tool calls are running and waiting")]
    Saturated,
    /// A call took longer than it may.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// A request came before `initialize`.
    #[error(
        "send `initialize` first, or `_meta` with `io.modelcontextprotocol/protocolVersion` in each request"
    )]
    NotInitialized,
    /// `initialize` came a second time.
    #[error("the connection is already initialized")]
    AlreadyInitialized,
    /// A call asked its caller again and again.
    #[error("the call asked its caller more than {0} times")]
    TooManyRounds(u32),
    /// What a call must remember between rounds is too large to travel.
    #[error("what the call keeps between rounds has more than {0} bytes")]
    StateTooLarge(usize),
    /// The task table is full.
    #[error("too many tasks are kept; wait for one to end or expire")]
    TooManyTasks,
}

impl From<Refusal> for RpcError {
    fn from(refusal: Refusal) -> Self {
        let code = match refusal {
            Refusal::Saturated
            | Refusal::TooManyTasks
            | Refusal::TooManyRounds(_)
            | Refusal::StateTooLarge(_) => ErrorCode::RESOURCE_EXHAUSTED,
            Refusal::TimedOut(_) => ErrorCode::TIMEOUT,
            Refusal::NotInitialized | Refusal::AlreadyInitialized => ErrorCode::INVALID_REQUEST,
        };
        Self::new(code, refusal.to_string())
    }
}
