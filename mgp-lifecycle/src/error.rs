//! Why this crate refuses a call, and the one place where reasons become codes (MGP §14.3).
//!
//! Applies to: both.

use std::time::Duration;

use mgp_types::mcp::{TaskStatus, key};
use mgp_types::mgp::{ServerState, ShutdownReason};
use mgp_types::service::ServerId;
use mgp_types::{ErrorCode, Object, Payload, Recovery, RetryStrategy, RpcError};

use crate::limit::{QuotaExceeded, RateLimited, TooLarge};

/// A refusal of a lifecycle layer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Too many tool calls run and wait.
    #[error("too many tool calls are running and waiting; try again in a moment")]
    Saturated,
    /// A call took longer than it may.
    #[error("no answer within {:?}; it may have run: call again only if that does no harm", about(*.0))]
    TimedOut(Duration),
    /// Whoever called stopped waiting before the call had its turn; it did not run.
    #[error("no turn came within {:?}; the call did not run, so call again when less is waiting", about(*.0))]
    NoTurn(Duration),
    /// Calls come faster than they may.
    #[error(transparent)]
    RateLimited(#[from] RateLimited),
    /// What a caller may use in a period is used up.
    #[error(transparent)]
    QuotaExceeded(#[from] QuotaExceeded),
    /// Arguments or a result are too large.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// The server takes no calls in the state it is in.
    #[error("{}", not_ready(state, server.as_ref()))]
    NotReady {
        /// The state.
        state: ServerState,
        /// The server, where it has a name.
        server: Option<ServerId>,
        /// Whether it will be started again without anybody asking for it.
        restarts: bool,
    },
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
    #[error("the call asked its caller more than {0} times; its tool must ask for more at once")]
    TooManyRounds(u32),
    /// What a call must remember between rounds is too large to travel.
    #[error(
        "what the call keeps between rounds has more than {0} bytes; its tool must keep less, or answers be shorter"
    )]
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
    #[error("the task broke off; it may have had effects")]
    TaskBroken,
    /// The server could not be reached several times in a row, and is left alone for a while (MGP §14.6).
    #[error(
        "{} could not be reached several times in a row; it is tried again in {:?}",
        named(server.as_ref()),
        about(*wait)
    )]
    LeftAlone {
        /// The server, where it is known.
        server: Option<ServerId>,
        /// How long it is left alone.
        wait: Duration,
    },
    /// What the task ended with cannot be handed on: another round, or a task of somebody else.
    #[error("the task ended with something that is no result")]
    TaskWithoutResult,
}

impl From<Refusal> for RpcError {
    fn from(refusal: Refusal) -> Self {
        let code = match &refusal {
            Refusal::NotReady { state: ServerState::Draining, .. } | Refusal::Draining(_) => {
                ErrorCode::SERVER_DRAINING
            }
            Refusal::NotReady { state: ServerState::Restarting, .. } => {
                ErrorCode::SERVER_RESTARTING
            }
            Refusal::NotReady { .. } => ErrorCode::SERVER_NOT_READY,
            Refusal::Saturated
            | Refusal::TooLarge(_)
            | Refusal::TooManyPermissionRequests(_)
            | Refusal::TooManyTasks
            | Refusal::TooManyRounds(_)
            | Refusal::StateTooLarge(_) => ErrorCode::RESOURCE_EXHAUSTED,
            Refusal::TimedOut(_) | Refusal::NoTurn(_) | Refusal::CutShort => ErrorCode::TIMEOUT,
            Refusal::RateLimited(_) => ErrorCode::RATE_LIMITED,
            Refusal::QuotaExceeded(_) => ErrorCode::QUOTA_EXCEEDED,
            Refusal::NotOwner => ErrorCode::PERMISSION_DENIED,
            Refusal::NotInitialized | Refusal::AlreadyInitialized | Refusal::TaskCancelled => {
                ErrorCode::INVALID_REQUEST
            }
            Refusal::LeftAlone { .. } => ErrorCode::UPSTREAM_UNAVAILABLE,
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
            _ => match hints(code, &refusal) {
                Some(hints) => error.recovery(hints),
                None => error,
            },
        }
    }
}

/// Why a server takes no calls, and what helps.
fn not_ready(state: &ServerState, server: Option<&ServerId>) -> String {
    let who = named(server);
    match state {
        ServerState::Draining => format!("{who} is draining and takes no new calls"),
        ServerState::Restarting => format!("{who} is being restarted; try again in a moment"),
        ServerState::Connecting => format!("{who} is starting; try again in a moment"),
        ServerState::Registered => format!("{who} was not started yet; start it first"),
        ServerState::Disconnected => format!("{who} is stopped; start it first"),
        ServerState::Error => format!("{who} failed; restart it once the cause is gone"),
        state => format!("{who} takes no calls while it is `{state}`"),
    }
}

/// The details of a refusal by state: both are words of ours, so they are always written.
fn facts(state: &ServerState, server: Option<&ServerId>) -> Object {
    // Whoever decides whether to make the call again need not ask what it may have done.
    let mut details = started(false);
    let _ = details.encode("state", state.as_str());
    if let Some(server) = server {
        let _ = details.encode("server_id", server.as_str());
    }
    details
}

/// A time as it is told: what was measured is a little longer than what was set, and nobody asks for that.
fn about(time: Duration) -> Duration {
    let step = Duration::from_millis(if time < Duration::from_secs(1) { 1 } else { 100 });
    let steps = time.as_nanos().saturating_add(step.as_nanos() / 2) / step.as_nanos();
    u32::try_from(steps).ok().and_then(|steps| step.checked_mul(steps)).unwrap_or(time)
}

fn named(server: Option<&ServerId>) -> String {
    server.map_or_else(|| "the server".to_owned(), |id| format!("server `{id}`"))
}

/// What a caller may do about it, where that depends on more than the code (MGP §14.5).
fn hints(code: ErrorCode, refusal: &Refusal) -> Option<Recovery> {
    let usual = Recovery::default_for(code)?;
    Some(match refusal {
        Refusal::RateLimited(limited) => match limited.wait_ms() {
            Some(ms) => usual.retry(RetryStrategy::ExponentialBackoff, ms, 3),
            None => usual.no_retry(),
        }
        .details(limited.details()),
        Refusal::QuotaExceeded(exceeded) => usual.details(exceeded.details()),
        Refusal::NotReady { state, server, restarts } => {
            let hints = match state {
                // Once the restart has begun it is 2002, and that is how those are told to wait.
                ServerState::Draining if *restarts => {
                    usual.retry(RetryStrategy::FixedDelay, 1000, 5)
                }
                _ => usual,
            };
            hints.details(facts(state, server.as_ref()))
        }
        Refusal::LeftAlone { server, wait } => left_alone(usual, server.as_ref(), *wait),
        // It ran, and would come as far again.
        Refusal::TooManyRounds(_) | Refusal::StateTooLarge(_) => usual.no_retry(),
        // The same again is as large.
        Refusal::TooLarge(large) => usual.no_retry().details(large.details()),
        Refusal::NoTurn(_) => usual.details(started(false)),
        Refusal::Draining(reason) => draining(usual, reason),
        Refusal::CutShort => usual.no_retry().details(started(true)),
        _ => return None,
    })
}

/// When a server that is left alone is tried again.
fn left_alone(mut hints: Recovery, server: Option<&ServerId>, wait: Duration) -> Recovery {
    // A wait that is rounded down ends too early.
    let ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    hints.retry_after_ms = Some(ms.saturating_add(1));
    let mut details = started(false);
    let _ = details.encode("circuit", "open");
    if let Some(server) = server {
        let _ = details.encode("server_id", server.as_str());
    }
    hints.details(details)
}

/// Whether a server that stops for this comes back (checklist C21).
fn comes_back(reason: &ShutdownReason) -> bool {
    matches!(reason, ShutdownReason::ConfigurationChange | ShutdownReason::ResourceLimit)
}

fn remedy(reason: &ShutdownReason) -> &'static str {
    if comes_back(reason) { "try again once it is back" } else { "use another one" }
}

/// What a caller may do whose call came too late: nothing of it was done.
fn draining(hints: Recovery, reason: &ShutdownReason) -> Recovery {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_as_they_were_set() {
        for (ms, told) in [
            (0, "0ns"),
            (4, "4ms"),
            (999, "999ms"),
            (1_500, "1.5s"),
            (60_001, "60s"),
            (4_999, "5s"),
        ] {
            let text = Refusal::TimedOut(Duration::from_millis(ms)).to_string();
            assert!(text.starts_with(&format!("no answer within {told}; ")), "{text}");
        }
        let texts = Refusal::NoTurn(Duration::MAX).to_string();
        assert!(texts.contains("18446744073709551615"), "{texts}");
    }

    #[test]
    fn who_comes_back_is_named_as_worth_waiting_for() {
        let text = |reason| Refusal::Draining(reason).to_string();
        assert!(text(ShutdownReason::ResourceLimit).ends_with("try again once it is back"));
        assert!(text(ShutdownReason::OperatorRequest).ends_with("use another one"));
    }
}
