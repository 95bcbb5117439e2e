//! Why this crate refuses a call, and the one place where reasons become codes (MGP §14.3).
//!
//! Applies to: both.

use std::time::Duration;

use mgp_types::mcp::{TaskStatus, key};
use mgp_types::mgp::{ServerState, ShutdownReason};
use mgp_types::{ErrorCode, Object, Payload, Recovery, RetryStrategy, RpcError};

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
    /// A call came after the server began to drain; it was never started.
    #[error("the server is shutting down ({0}) and starts no new calls; {remedy}", remedy = remedy(.0))]
    Draining(ShutdownReason),
    /// A call still ran when the time of the drain was over.
    #[error("the server shut down before the call ended; it may have had effects")]
    CutShort,
    /// Somebody else than the owner asked the server to shut down.
    #[error(
        "only the owner shuts this server down: the process that started it, over stdio, or a key with operator authority"
    )]
    NotOwner,
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
    /// A server asks for permissions faster than anybody decides.
    #[error("more than {0} requests for permissions are open; wait for their answers")]
    TooManyPermissionRequests(usize),
    /// The task table is full.
    #[error("too many tasks are kept; wait for one to end or expire")]
    TooManyTasks,
    /// The caller has no task of this id; also what another principal's task looks like.
    #[error("unknown task; it may have expired")]
    UnknownTask,
    /// A modern caller did not offer the tasks extension.
    #[error("the client must offer the extension `{}`", key::TASKS_EXTENSION)]
    TasksNotOffered,
    /// A 2025-11-25 caller must send `task`, or an older one cannot.
    #[error("tool `{0}` runs as a task only; send `task`")]
    TaskRequired(String),
    /// A 2025-11-25 caller sent `task` for a tool that never becomes one.
    #[error("tool `{0}` does not run as a task; leave `task` out")]
    TaskForbidden(String),
    /// A task that ended cannot be cancelled (2025-11-25).
    #[error("the task has ended: {0}")]
    TaskEnded(TaskStatus),
    /// There is no result, because the task was cancelled.
    #[error("the task was cancelled")]
    TaskCancelled,
    /// The task broke off without an answer.
    #[error("the task broke off")]
    TaskBroken,
    /// What the task ended with cannot be handed on: another round, or a task of somebody else.
    #[error("the task ended with something that is no result")]
    TaskWithoutResult,
}

impl From<Refusal> for RpcError {
    fn from(refusal: Refusal) -> Self {
        let code = match refusal {
            Refusal::Saturated
            | Refusal::TooManyPermissionRequests(_)
            | Refusal::TooManyTasks
            | Refusal::TooManyRounds(_)
            | Refusal::StateTooLarge(_) => ErrorCode::RESOURCE_EXHAUSTED,
            Refusal::TimedOut(_) | Refusal::CutShort => ErrorCode::TIMEOUT,
            Refusal::Draining(_) => ErrorCode::SERVER_DRAINING,
            Refusal::NotOwner => ErrorCode::PERMISSION_DENIED,
            Refusal::NotInitialized | Refusal::AlreadyInitialized | Refusal::TaskCancelled => {
                ErrorCode::INVALID_REQUEST
            }
            Refusal::UnknownTask | Refusal::TaskEnded(_) => ErrorCode::INVALID_PARAMS,
            Refusal::TasksNotOffered => ErrorCode::MISSING_CLIENT_CAPABILITY,
            Refusal::TaskRequired(_) | Refusal::TaskForbidden(_) => ErrorCode::METHOD_NOT_FOUND,
            Refusal::TaskBroken | Refusal::TaskWithoutResult => ErrorCode::INTERNAL_ERROR,
        };
        let error = Self::new(code, refusal.to_string());
        match refusal {
            Refusal::TasksNotOffered => error.data(Payload::from_trusted(format!(
                r#"{{"requiredCapabilities":{{"extensions":{{"{}":{{}}}}}}}}"#,
                key::TASKS_EXTENSION
            ))),
            Refusal::Draining(reason) => error.recovery(draining(&reason)),
            Refusal::CutShort => {
                let hints = Recovery::default_for(code).unwrap_or_default().no_retry();
                error.recovery(hints.details(started(true)))
            }
            _ => error,
        }
    }
}

/// Whether a server that stops for this comes back (checklist C21).
fn comes_back(reason: &ShutdownReason) -> bool {
    matches!(reason, ShutdownReason::ConfigurationChange | ShutdownReason::ResourceLimit)
}

fn remedy(reason: &ShutdownReason) -> &'static str {
    if comes_back(reason) { "try again once it is back" } else { "use another one" }
}

/// What a caller may do whose call came too late: nothing of it was done.
fn draining(reason: &ShutdownReason) -> Recovery {
    let hints = Recovery::default_for(ErrorCode::SERVER_DRAINING).unwrap_or_default();
    let hints =
        if comes_back(reason) { hints.retry(RetryStrategy::FixedDelay, 1000, 5) } else { hints };
    let mut details = started(false);
    // Words can always be written.
    let _ = details.encode("state", ServerState::Draining.as_str());
    let _ = details.encode("reason", reason.as_str());
    hints.details(details)
}

/// Whether a call began, for who decides whether to make it again.
fn started(started: bool) -> Object {
    let mut details = Object::new();
    // A word can always be written.
    let _ = details.encode("started", &started);
    details
}
