//! The reasons why this crate refuses a call, and their error codes (MGP §14.3).

use std::sync::Arc;
use std::time::Duration;

use mgp_types::mcp::{TaskStatus, key};
use mgp_types::mgp::{ServerState, ShutdownReason};
use mgp_types::proposal::TransactionStatus;
use mgp_types::service::ServerId;
use mgp_types::{
    Category, ErrorCode, Object, Payload, Recovery, RetryStrategy, RpcError, Timestamp,
};

use crate::limit::{QuotaExceeded, RateLimited, TooLarge};
use crate::supervise::RestartLimitExceeded;

/// The reason why a layer of this crate refuses a call, or ends it with an error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LifecycleError {
    /// The maximum numbers of running and of waiting tool calls are reached.
    #[error("too many tool calls are running and waiting; try again in a moment")]
    Saturated,
    /// A call took longer than allowed.
    #[error("no answer within {}; it may have run: call again only if that does no harm", in_words(*.0))]
    TimedOut(Duration),
    /// A call that reported progress took longer than allowed in total.
    #[error("not finished within {}, although it reported progress; it may have run: call again only if that does no harm", in_words(*.0))]
    TotalTimedOut(Duration),
    /// The deadline of the caller passed before the call got a permit, so the call did not run.
    #[error("the call waited {} because too many calls run, and did not start; call again when fewer calls run", in_words(*.0))]
    NotStarted(Duration),
    /// Calls arrive at a higher rate than allowed.
    #[error(transparent)]
    RateLimited(#[from] RateLimited),
    /// The caller has used up its quota for the current period.
    #[error(transparent)]
    QuotaExceeded(#[from] QuotaExceeded),
    /// The arguments or the result of a call are too large.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// The server does not accept calls in its current state.
    #[error("{}", not_ready(state, server.as_ref(), cause.as_deref()))]
    NotReady {
        /// The current state of the server.
        state: ServerState,
        /// The server's id, if it has one.
        server: Option<ServerId>,
        /// If `true`, the server restarts without an action by an operator.
        restarts: bool,
        /// The cause of the failure and, if the server will be started again, the time until then; `None` if no failure
        /// is known.
        cause: Option<Arc<str>>,
    },
    /// A call arrived after the server began to drain; the call was never started.
    #[error("the server is shutting down ({0}) and starts no new calls; {remedy}", remedy = remedy(.0))]
    Draining(ShutdownReason),
    /// A call was still running when the drain timed out.
    #[error("the server shut down before the call ended; it may have had effects")]
    DrainTimedOut,
    /// A caller other than the owner asked the server to shut down.
    #[error(
        "only the owner shuts this server down: the process that started it, over stdio, or a key with operator authority"
    )]
    NotOwner,
    /// A request arrived before `initialize`.
    #[error(
        "send `initialize` first, or `_meta` with `io.modelcontextprotocol/protocolVersion` in each request"
    )]
    NotInitialized,
    /// `initialize` was sent a second time.
    #[error("the connection is already initialized")]
    AlreadyInitialized,
    /// A call asked its caller questions in more rounds than allowed.
    #[error(
        "the call asked its caller questions more than {0} times; the tool must ask several questions at once"
    )]
    TooManyRounds(u32),
    /// The state that a call stores between rounds is too large.
    #[error(
        "the answers and values that the call keeps between its rounds of questions have more than {0} bytes; shorten the answers, or let the tool keep less"
    )]
    StateTooLarge(usize),
    /// A server has more open permission requests than allowed.
    #[error("more than {0} requests for permissions are open; wait for their answers")]
    TooManyPermissionRequests(usize),
    /// The task table is full.
    #[error("the server keeps {0} tasks and cannot keep more; try again when some have ended")]
    TooManyTasks(usize),
    /// The caller has at least as many tasks as it may have now.
    #[error(
        "you may keep at most {0} tasks now; cancel some, fetch the results of ended ones, or wait until they expire"
    )]
    TooManyOwnTasks(usize),
    /// The caller has no task with this id; another principal's task is reported the same way.
    #[error("unknown task; it may have expired")]
    UnknownTask,
    /// A modern caller did not offer the tasks extension.
    #[error("the client must offer the extension `{}`", key::TASKS_EXTENSION)]
    TasksNotOffered,
    /// The tool can run only as a task, but the caller did not send `task` (MCP 2025-11-25; clients of older revisions
    /// cannot send it).
    #[error("tool `{0}` runs as a task only; send `task`")]
    TaskRequired(String),
    /// The tool cannot run as a task, but the caller sent `task` (MCP 2025-11-25).
    #[error("tool `{0}` does not run as a task; leave `task` out")]
    TaskForbidden(String),
    /// A task that ended cannot be cancelled (MCP 2025-11-25).
    #[error("the task has ended: {0}")]
    TaskEnded(TaskStatus),
    /// The task has no result, because it was cancelled.
    #[error("the task was cancelled")]
    TaskCancelled,
    /// The task was aborted without an answer.
    #[error("the task broke off; it may have had effects")]
    TaskAborted,
    /// The server could not be reached several times in a row, so calls to it are refused for a while (MGP §14.6).
    #[error(
        "{} could not be reached several times in a row; it is tried again in {}",
        named(server.as_ref()),
        in_words(*wait)
    )]
    CircuitOpen {
        /// The server, if it is known.
        server: Option<ServerId>,
        /// The time until the next attempt to reach the server.
        wait: Duration,
    },
    /// The idempotency key of a call was used before with different arguments, or for a step of another transaction.
    #[error(
        "this `idempotency_key` was used with other arguments or in another transaction; choose a new key for a new call"
    )]
    IdempotencyConflict,
    /// A call with this idempotency key was started, and it is unknown how the call ended.
    #[error(
        "a call with this `idempotency_key` began at {0} and was interrupted, so it may have had effects; check that, then use a new key"
    )]
    UnknownOutcome(Timestamp),
    /// A call with this idempotency key ended, but its result is no longer stored, because it was too long or too old.
    #[error("the call with this `idempotency_key` ran at {0}; its result is no longer kept")]
    ResultNotKept(Timestamp),
    /// A call with an idempotency key may have run, but the server no longer keeps the key, so the call is not
    /// repeated.
    #[error(
        "the call may have run, and the server no longer keeps its `idempotency_key`, so it was not repeated; check whether it had effects"
    )]
    KeyNotKept,
    /// The maximum number of idempotency keys is stored (extension `idempotency`).
    #[error(
        "too many idempotency keys are kept; wait until some expire, or choose a shorter time to keep them"
    )]
    TooManyKeys,
    /// The caller has no transaction with this id (extension `transactions`).
    #[error("there is no transaction with this id; begin it first with `transaction/begin`")]
    UnknownTransaction,
    /// A transaction with this id exists, or existed a short time ago.
    #[error("the id of this transaction was used before; choose another one")]
    TransactionExists,
    /// The transaction is not open any more.
    #[error("the transaction is {}; begin a new one", .0.as_str().replace('_', " "))]
    TransactionEnded(TransactionStatus),
    /// No further transaction can begin, because the maximum number of transactions is open or waits for an operator.
    #[error(
        "too many transactions are open; commit some or roll them back, or let an operator resolve those that wait"
    )]
    TooManyTransactions,
    /// A transaction has reached the maximum number of steps.
    #[error("the transaction has {0} steps, and may have no more; commit it or roll it back")]
    TooManySteps(usize),
    /// The compensations of a transaction (the calls that undo its steps) have more bytes than allowed.
    #[error(
        "the compensations of the transaction have more than {0} bytes; commit it or roll it back"
    )]
    TooMuchToUndo(usize),
    /// The transaction has a step with this id, and no idempotency key shows that the call is a repetition of that
    /// step.
    #[error(
        "step `{0}` was called before; choose another `step_id`, or repeat the call with the `idempotency_key` of the first"
    )]
    StepExists(String),
    /// A step of the transaction is still running, or was interrupted.
    #[error(
        "step `{0}` has not ended; wait for it, repeat it with its `idempotency_key`, or roll the transaction back"
    )]
    StepNotEnded(String),
    /// The task ended with a reply that cannot be returned as a result: questions to the caller, or another task.
    #[error("the task ended with something other than a result")]
    TaskWithoutResult,
}

impl LifecycleError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::NotReady { state: ServerState::Draining, .. } | Self::Draining(_) => {
                ErrorCode::SERVER_DRAINING
            }
            Self::NotReady { state: ServerState::Restarting, .. } => ErrorCode::SERVER_RESTARTING,
            Self::NotReady { .. } => ErrorCode::SERVER_NOT_READY,
            Self::Saturated
            | Self::TooLarge(_)
            | Self::TooManyPermissionRequests(_)
            | Self::TooManyTasks(_)
            | Self::TooManyOwnTasks(_)
            | Self::TooManyKeys
            | Self::TooManyTransactions
            | Self::TooManySteps(_)
            | Self::TooMuchToUndo(_)
            | Self::ResultNotKept(_)
            | Self::TooManyRounds(_)
            | Self::StateTooLarge(_) => ErrorCode::RESOURCE_EXHAUSTED,
            Self::TimedOut(_)
            | Self::TotalTimedOut(_)
            | Self::NotStarted(_)
            | Self::DrainTimedOut => ErrorCode::TIMEOUT,
            Self::RateLimited(_) => ErrorCode::RATE_LIMITED,
            Self::QuotaExceeded(_) => ErrorCode::QUOTA_EXCEEDED,
            Self::NotOwner => ErrorCode::PERMISSION_DENIED,
            Self::NotInitialized | Self::AlreadyInitialized | Self::TaskCancelled => {
                ErrorCode::INVALID_REQUEST
            }
            Self::CircuitOpen { .. } => ErrorCode::UPSTREAM_UNAVAILABLE,
            Self::UnknownTask
            | Self::TaskEnded(_)
            | Self::UnknownTransaction
            | Self::TransactionExists
            | Self::TransactionEnded(_)
            | Self::StepExists(_)
            | Self::StepNotEnded(_)
            | Self::IdempotencyConflict => ErrorCode::INVALID_PARAMS,
            Self::UnknownOutcome(_) | Self::KeyNotKept => ErrorCode::UPSTREAM_ERROR,
            Self::TasksNotOffered => ErrorCode::MISSING_CLIENT_CAPABILITY,
            Self::TaskRequired(_) | Self::TaskForbidden(_) => ErrorCode::METHOD_NOT_FOUND,
            Self::TaskAborted | Self::TaskWithoutResult => ErrorCode::INTERNAL_ERROR,
        }
    }

    /// Returns the error for a call that was already running when it was refused, so that it may have had effects.
    pub(crate) fn after_start(self) -> RpcError {
        let error = RpcError::from(self);
        match error.as_recovery().cloned() {
            Some(hints) => error.recovery(hints.no_retry().details(started(true))),
            None => error,
        }
    }
}

impl From<LifecycleError> for RpcError {
    fn from(refusal: LifecycleError) -> Self {
        let code = refusal.code();
        let error = Self::new(code, refusal.to_string());
        match refusal {
            // Keep the refusal as the source of the error, so that outer layers can find out which limit was exceeded.
            LifecycleError::Saturated
            | LifecycleError::TimedOut(_)
            | LifecycleError::TotalTimedOut(_)
            | LifecycleError::NotStarted(_)
            | LifecycleError::RateLimited(_)
            | LifecycleError::TooLarge(_) => match hints(code, &refusal) {
                Some(hints) => error.recovery(hints).because(refusal),
                None => error.because(refusal),
            },
            LifecycleError::IdempotencyConflict => {
                let mut hints = Recovery::default().no_retry();
                hints.category = Some(Category::Validation);
                let details = started(false).with("reason", "IDEMPOTENCY_CONFLICT");
                error.recovery(hints.details(details))
            }
            LifecycleError::TasksNotOffered => error.data(Payload::from_trusted(format!(
                r#"{{"requiredCapabilities":{{"extensions":{{"{}":{{}}}}}}}}"#,
                key::TASKS_EXTENSION
            ))),
            _ => {
                let error = match hints(code, &refusal) {
                    Some(hints) => error.recovery(hints),
                    None => error,
                };
                let is_away = matches!(
                    refusal,
                    LifecycleError::NotReady { .. } | LifecycleError::CircuitOpen { .. }
                );
                // Keep the refusal as the source of the error, because outer layers might know the cause and a remedy.
                if is_away { error.because(refusal) } else { error }
            }
        }
    }
}

/// Returns a text that explains why a server accepts no calls, and what the caller can do.
fn not_ready(state: &ServerState, server: Option<&ServerId>, cause: Option<&str>) -> String {
    let subject = named(server);
    match (state, cause) {
        (ServerState::Restarting, Some(cause)) => format!("{subject} is not ready: {cause}"),
        (ServerState::Draining, Some(cause)) => {
            format!("{subject} is draining and takes no new calls: {cause}")
        }
        (ServerState::Connecting, Some(cause)) => {
            format!("{subject} is starting again after a failure: {cause}; try again in a moment")
        }
        // The text of the cause already advises a login, which also restarts the server. So no other remedy is added.
        (ServerState::Error, Some(cause)) if needs_login(cause) => {
            format!("{subject} failed: {cause}")
        }
        (ServerState::Error, Some(cause)) => {
            format!("{subject} failed: {cause}; restart it once the cause is gone")
        }
        (state, _) => not_ready_state(state, &subject),
    }
}

/// Returns whether the cause of a failure names a login as its remedy.
fn needs_login(cause: &str) -> bool {
    cause.contains("; run `mgp servers login ")
}

/// Returns whether only a person can end a failure: by a login, or by starting a server that has reached its limit of
/// restarts.
fn needs_operator(cause: &str) -> bool {
    needs_login(cause) || cause.starts_with(RestartLimitExceeded::WORD)
}

fn not_ready_state(state: &ServerState, subject: &str) -> String {
    match state {
        ServerState::Draining => format!("{subject} is draining and takes no new calls"),
        ServerState::Restarting => format!("{subject} is being restarted; try again in a moment"),
        ServerState::Connecting => format!("{subject} is starting; try again in a moment"),
        ServerState::Registered => format!("{subject} was not started yet; start it first"),
        ServerState::Disconnected => format!("{subject} is stopped; start it first"),
        ServerState::Error => format!("{subject} failed; restart it once the cause is gone"),
        state => format!("{subject} takes no calls while it is `{state}`"),
    }
}

fn state_details(state: &ServerState, server: Option<&ServerId>) -> Object {
    // With `started: false` the caller knows that the call had no effect and can be retried.
    started(false)
        .with("state", state.as_str())
        .with_optional("server_id", server.map(ServerId::as_str))
}

fn in_words(time: Duration) -> String {
    mgp_types::duration_words(about(time))
}

/// Rounds a time for a message, because a measured time is always slightly longer than the limit that was set.
fn about(time: Duration) -> Duration {
    let step = Duration::from_millis(if time < Duration::from_secs(1) { 1 } else { 100 });
    let steps = time.as_nanos().saturating_add(step.as_nanos() / 2) / step.as_nanos();
    u32::try_from(steps).ok().and_then(|steps| step.checked_mul(steps)).unwrap_or(time)
}

fn named(server: Option<&ServerId>) -> String {
    server.map_or_else(|| "the server".to_owned(), |id| format!("server `{id}`"))
}

/// Returns the recovery hints for a refusal; `None` if the default hints of the error code apply (MGP §14.5).
fn hints(code: ErrorCode, refusal: &LifecycleError) -> Option<Recovery> {
    let defaults = Recovery::default_for(code)?;
    Some(match refusal {
        LifecycleError::RateLimited(limited) => match limited.wait_ms() {
            Some(ms) => defaults.retry(RetryStrategy::ExponentialBackoff, ms, 3),
            None => defaults.no_retry(),
        }
        .details(limited.details()),
        LifecycleError::QuotaExceeded(exceeded) => defaults.details(exceeded.details()),
        LifecycleError::NotReady { state, server, restarts, cause } => {
            let hints = match state {
                ServerState::Error if cause.as_deref().is_some_and(needs_operator) => {
                    defaults.no_retry()
                }
                // The server restarts after the drain, and meanwhile refuses calls with code 2002 (server restarting).
                // These hints are the same as the hints of that code.
                ServerState::Draining if *restarts => {
                    defaults.retry(RetryStrategy::FixedDelay, 1000, 5)
                }
                _ => defaults,
            };
            hints.details(state_details(state, server.as_ref()))
        }
        LifecycleError::CircuitOpen { server, wait } => {
            circuit_open(defaults, server.as_ref(), *wait)
        }
        // The call ran, and a retry would end in the same way, so advise against a retry.
        LifecycleError::TooManyRounds(_) | LifecycleError::StateTooLarge(_) => defaults.no_retry(),
        // In a retry, the arguments or the result would be just as large, so advise against it.
        LifecycleError::TooLarge(large) => defaults.no_retry().details(large.details()),
        LifecycleError::TimedOut(limit) | LifecycleError::TotalTimedOut(limit) => {
            defaults.details(exceeded(*limit))
        }
        LifecycleError::NotStarted(_) => defaults.details(started(false)),
        LifecycleError::UnknownOutcome(_)
        | LifecycleError::ResultNotKept(_)
        | LifecycleError::KeyNotKept
        | LifecycleError::DrainTimedOut => defaults.no_retry().details(started(true)),
        LifecycleError::Draining(reason) => draining(defaults, reason),
        _ => return None,
    })
}

fn circuit_open(mut hints: Recovery, server: Option<&ServerId>, wait: Duration) -> Recovery {
    // Round up: a caller that waits slightly too short would be refused again.
    let ms = mgp_types::millis(wait);
    hints.retry_after_ms = Some(ms.saturating_add(1));
    let details = started(false)
        .with("circuit", "open")
        .with_optional("server_id", server.map(ServerId::as_str));
    hints.details(details)
}

/// Returns whether a server that stops for this reason is started again (MGP §11.4).
pub(crate) fn restart_follows(reason: &ShutdownReason) -> bool {
    matches!(reason, ShutdownReason::ConfigurationChange | ShutdownReason::ResourceLimit)
}

fn remedy(reason: &ShutdownReason) -> &'static str {
    if restart_follows(reason) { "try again once it is back" } else { "use another one" }
}

/// Adds the hints for a call that arrived during a drain and was not started.
fn draining(hints: Recovery, reason: &ShutdownReason) -> Recovery {
    let hints = if restart_follows(reason) {
        hints.retry(RetryStrategy::FixedDelay, 1000, 5)
    } else {
        hints
    };
    let details = started(false)
        .with("state", ServerState::Draining.as_str())
        .with("reason", reason.as_str());
    hints.details(details)
}

/// Returns the error details for a call that took longer than this limit.
fn exceeded(limit: Duration) -> Object {
    Object::new().with("timeout_ms", &mgp_types::millis(about(limit)))
}

/// Returns the error details that state whether a call was started.
fn started(started: bool) -> Object {
    Object::new().with("started", &started)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_as_it_was_set() {
        for (ms, shown) in [
            (0, "0 ns"),
            (4, "4 ms"),
            (999, "999 ms"),
            (1_500, "1.5 s"),
            (60_001, "60 s"),
            (4_999, "5 s"),
        ] {
            let text = LifecycleError::TimedOut(Duration::from_millis(ms)).to_string();
            assert!(text.starts_with(&format!("no answer within {shown}; ")), "{text}");
        }
        let texts = LifecycleError::NotStarted(Duration::MAX).to_string();
        assert!(texts.contains("18446744073709551615"), "{texts}");
    }

    #[test]
    fn a_failure_that_only_a_person_ends_asks_for_no_retry() {
        let text = |cause| not_ready(&ServerState::Error, None, Some(cause));
        let login = "`files` requires a login; run `mgp servers login files`";
        assert!(text(login).ends_with("run `mgp servers login files`"), "{}", text(login));
        assert!(text("exited with code 1").ends_with("restart it once the cause is gone"));
        let given_up = "restart_limit_exceeded: 5 restarts within 300 s; exited with code 1";
        for (cause, retryable) in [(login, false), (given_up, false), ("exited with code 1", true)]
        {
            let (state, cause) = (ServerState::Error, Some(cause.into()));
            let refusal = LifecycleError::NotReady { state, server: None, restarts: true, cause };
            let error = RpcError::from(refusal);
            assert_eq!(error.as_recovery().unwrap().is_retryable(), retryable, "{error}");
        }
    }

    #[test]
    fn a_drain_before_a_restart_is_worth_waiting_for() {
        let text = |reason| LifecycleError::Draining(reason).to_string();
        assert!(text(ShutdownReason::ResourceLimit).ends_with("try again once it is back"));
        assert!(text(ShutdownReason::OperatorRequest).ends_with("use another one"));
    }
}
