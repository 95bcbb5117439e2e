//! Calls that became tasks. The client polls a task until it ends, and its handlers answer the questions of the
//! task (MCP extension `io.modelcontextprotocol/tasks`; tasks of 2025-11-25).

use std::collections::HashSet;
use std::time::Duration;

use mgp_lifecycle::LifecycleError;
use mgp_types::mcp::{
    CancelTaskResult, CreateTaskResult, InputRequests, Task, TaskParams, TaskStatus,
    UpdateTaskParams,
};
use mgp_types::method::{Request, TasksCancel, TasksGet, TasksResult, TasksUpdate};
use mgp_types::service::{
    Call, CallKey, CallerRequest, Context, Extensions, HttpFailure, Outlet, Reply,
};
use mgp_types::{ErrorCode, Object, Payload, Recovery, RpcError};
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::Client;
use super::rounds::ensure_known_kind;
use crate::wire::TimeLimits;

/// The poll interval if the server suggests none. The servers of this workspace suggest the same value.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest interval at which a client polls a task, whatever the server suggests.
const MIN_INTERVAL: Duration = Duration::from_millis(20);
/// The longest interval at which a client polls a task.
const MAX_INTERVAL: Duration = Duration::from_mins(1);
/// The maximum number of consecutive failed attempts to get an answer about a task.
const MAX_TRIES: u32 = 8;
/// The time limit for the server's answer to `tasks/cancel`.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);

impl Client {
    /// Waits for the result of a task, at most for the maximum duration of its call.
    ///
    /// Dropping the future cancels the task.
    pub(crate) async fn await_task(
        &self,
        cx: &Context,
        created: &Reply,
        max: Duration,
    ) -> Result<Reply, RpcError> {
        let created: CreateTaskResult = created.get()?;
        let interval = interval(created.poll_interval_ms, DEFAULT_INTERVAL);
        let guard = CancelOnDrop::new(self, created.task_id);
        let polling = self.poll_until_ended(cx, guard.params(), interval);
        match within(max, polling).await? {
            // Dropping the guard cancels the task, which cannot continue without the answer.
            Err(TaskFailure::Unanswered(error)) => Err(error),
            Err(TaskFailure::Unknown(error)) => guard.ended(Err(error)),
            Ok(task) => guard.ended(outcome(task)),
        }
    }

    /// Polls a task until it ends.
    async fn poll_until_ended(
        &self,
        cx: &Context,
        params: TaskParams,
        mut interval: Duration,
    ) -> Result<Task, TaskFailure> {
        let mut answered_keys = HashSet::new();
        loop {
            sleep(interval).await;
            let (task, _) = self.request_until_answered::<TasksGet>(cx, &params, interval).await;
            let task: Task = task.map_err(TaskFailure::Unknown)?;
            interval = self::interval(task.poll_interval_ms, interval);
            match task.status {
                TaskStatus::InputRequired => {
                    let questions = task.input_requests.unwrap_or_default();
                    self.answer_task(cx, &params.task_id, questions, &mut answered_keys, interval)
                        .await
                        .map_err(TaskFailure::Unanswered)?;
                }
                TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled => {
                    return Ok(task);
                }
                // A status that only a later revision defines does not end the waiting.
                _ => {}
            }
        }
    }

    /// Answers the questions of a task that have not been answered yet.
    async fn answer_task(
        &self,
        cx: &Context,
        id: &str,
        questions: InputRequests,
        answered_keys: &mut HashSet<String>,
        interval: Duration,
    ) -> Result<(), RpcError> {
        let mut new_questions = Vec::new();
        for (key, request) in questions {
            if !answered_keys.contains(&key) {
                new_questions.push((key, question(&Payload::of(&request)?)?));
            }
        }
        if new_questions.is_empty() {
            // All questions have been answered; the server has not processed the answers yet.
            return Ok(());
        }
        let bound = (self.0.max_rounds as usize).saturating_mul(MAX_QUESTIONS_PER_ROUND);
        if answered_keys.len() + new_questions.len() > bound {
            let message = format!(
                "the task asked more than {bound} questions, {MAX_QUESTIONS_PER_ROUND} for each of `max_rounds`; \
                 raise that if the task needs more"
            );
            return Err(RpcError::new(ErrorCode::RESOURCE_EXHAUSTED, message));
        }
        let keys: Vec<_> = new_questions.iter().map(|(key, _)| key.clone()).collect();
        let answers: Object = self.answers(cx, new_questions).await?;
        let params = UpdateTaskParams::new(id, answers);
        let (taken, tries) =
            self.request_until_answered::<TasksUpdate>(cx, &params, interval).await;
        if let Err(error) = taken {
            if tries == 1 {
                return Err(error);
            }
            // Ignore the refusal: an earlier attempt that seemed to fail may have reached the server. The next poll
            // will show the actual state.
            tracing::debug!(task = id, %error, "repeated answer to a task refused");
        }
        answered_keys.extend(keys);
        Ok(())
    }

    /// Waits for the result of a task of revision 2025-11-25. Its server sends questions as requests.
    pub(crate) async fn await_legacy_task(
        &self,
        cx: &Context,
        task: Task,
        max: Duration,
    ) -> Result<Reply, RpcError> {
        let guard = CancelOnDrop::new(self, task.task_id);
        let interval = interval(task.poll_interval_ms, DEFAULT_INTERVAL);
        let (params, mut cx) = (guard.params(), task_context(cx));
        // `within` below limits all attempts together, so the limit of a single attempt is longer and never applies.
        let long = max.saturating_add(CANCEL_TIMEOUT);
        cx.extensions.insert(TimeLimits { timeout: long, max: long });
        let polling = async {
            let mut tries = 0;
            loop {
                cx.key = CallKey::next();
                let call = Call::ask::<TasksResult>(&params, cx.clone())?;
                let outcome = self.0.stack.send(call).await;
                // If the server itself answered, even with an error, its answer is the result of the task.
                match outcome.as_ref().err().filter(|error| !is_from_server(error)) {
                    Some(error) => match self.retry_delay(error, &mut tries, interval) {
                        Some(retry_delay) => sleep(retry_delay).await,
                        None => return outcome,
                    },
                    None => return outcome,
                }
            }
        };
        let outcome = within(max, polling).await?;
        guard.ended(outcome)
    }

    /// Repeats a request about a task until the server answers, up to a maximum number of attempts. Also returns
    /// the number of attempts.
    ///
    /// Repetition makes sense because a task survives lost connections and failing proxies.
    async fn request_until_answered<R: Request>(
        &self,
        cx: &Context,
        params: &R::Params,
        interval: Duration,
    ) -> (Result<R::Result, RpcError>, u32) {
        let mut tries = 0;
        loop {
            let outcome = self.task_request::<R>(cx, params).await;
            let retry_delay = outcome
                .as_ref()
                .err()
                .and_then(|error| self.retry_delay(error, &mut tries, interval));
            match retry_delay {
                Some(retry_delay) => sleep(retry_delay).await,
                None => return (outcome, tries.max(1)),
            }
        }
    }

    /// Counts a failed attempt; returns the delay before the next one, or `None` if no further attempt should be made.
    fn retry_delay(
        &self,
        error: &RpcError,
        tries: &mut u32,
        interval: Duration,
    ) -> Option<Duration> {
        *tries += 1;
        if !is_transient(error) || *tries >= MAX_TRIES || self.is_closed() {
            return None;
        }
        tracing::debug!(%error, tries, "polling a task failed; retrying");
        let hint = error.as_recovery().and_then(|hints| hints.retry_after_ms);
        let least = Duration::from_millis(hint.unwrap_or_default());
        Some(interval.saturating_mul(1 << (*tries - 1).min(16)).max(least).min(MAX_INTERVAL))
    }

    /// Sends a request about a task, with the principal and trace of the call that became the task.
    async fn task_request<R: Request>(
        &self,
        cx: &Context,
        params: &R::Params,
    ) -> Result<R::Result, RpcError> {
        self.0.stack.send(Call::ask::<R>(params, task_context(cx))?).await?.get()
    }
}

/// A reason to stop waiting for a task before its end.
enum TaskFailure {
    /// The state of the task is unknown, because the server does not report it; the task may still run.
    Unknown(RpcError),
    /// A question of the task could not be answered.
    Unanswered(RpcError),
}

/// Returns whether an error is temporary, so that another attempt may succeed.
fn is_transient(error: &RpcError) -> bool {
    match HttpFailure::from_error(error) {
        Some(HttpFailure::Unreachable | HttpFailure::ConnectionLost) => true,
        Some(HttpFailure::Status(status) | HttpFailure::StatusWithError(status)) => {
            matches!(status, 408 | 425 | 429 | 500..)
        }
        _ => Recovery::for_repeatable(error.code()).is_some_and(|hints| hints.is_retryable()),
    }
}

/// Returns whether an error comes from the server itself, not from a proxy or the transport.
fn is_from_server(error: &RpcError) -> bool {
    match HttpFailure::from_error(error) {
        None => true,
        Some(HttpFailure::StatusWithError(status)) => !matches!(status, 408 | 425 | 429 | 503),
        Some(_) => false,
    }
}

/// Returns the result of a task that has ended.
fn outcome(task: Task) -> Result<Reply, RpcError> {
    match task.status {
        TaskStatus::Completed => {
            let result = task
                .result
                .ok_or_else(|| RpcError::internal("the task is completed without a result"))?;
            ensure_known_kind(Reply::raw(result.into()))
        }
        TaskStatus::Failed => Err(task.error.unwrap_or_else(|| {
            let why = task.status_message.as_deref().unwrap_or("without a reason");
            RpcError::internal(format!("the task failed: {why}"))
        })),
        _ => Err(RpcError::internal("the task was cancelled by the server")),
    }
}

/// Waits for a future, at most for the maximum duration of a call.
async fn within<T>(max: Duration, work: impl Future<Output = T>) -> Result<T, RpcError> {
    // An instant that cannot be represented means no limit.
    let Some(deadline) = Instant::now().checked_add(max) else { return Ok(work.await) };
    timeout_at(deadline, work).await.map_err(|_| LifecycleError::TimedOut(max).into())
}

/// The number of questions that a task may ask for each of the allowed rounds (`max_rounds`).
const MAX_QUESTIONS_PER_ROUND: usize = 8;

fn task_context(cx: &Context) -> Context {
    let mut cx = cx.clone();
    cx.key = CallKey::next();
    cx.logical = None;
    cx.outlet = Outlet::none();
    cx.extensions = Extensions::default();
    cx
}

fn interval(hint: Option<u64>, default: Duration) -> Duration {
    hint.map_or(default, |ms| Duration::from_millis(ms).clamp(MIN_INTERVAL, MAX_INTERVAL))
}

fn question(request: &Payload) -> Result<CallerRequest, RpcError> {
    #[derive(Deserialize)]
    struct Question {
        method: String,
        params: Option<Payload>,
    }
    let question: Question = request.get()?;
    Ok(CallerRequest::new(question.method, question.params.unwrap_or_else(Payload::empty_object)))
}

/// A guard that cancels a task if it is dropped before the task has ended.
struct CancelOnDrop {
    client: Option<Client>,
    id: String,
}

impl CancelOnDrop {
    fn new(client: &Client, id: String) -> Self {
        Self { client: Some(client.clone()), id }
    }

    fn params(&self) -> TaskParams {
        TaskParams::new(self.id.clone())
    }

    /// Disarms the guard, because the task has ended, and returns the outcome.
    fn ended<T>(mut self, outcome: T) -> T {
        self.client = None;
        outcome
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        // If there is no runtime, the connection is closed as well, so nothing can be sent.
        let (Some(client), Ok(runtime)) = (self.client.take(), Handle::try_current()) else {
            return;
        };
        if client.is_closed() {
            return;
        }
        let params = self.params();
        runtime.spawn(async move {
            let cancelled = client.request::<TasksCancel>(&params);
            let cancelled_answer: Result<Result<CancelTaskResult, _>, _> =
                timeout(CANCEL_TIMEOUT, cancelled).await;
            if !matches!(cancelled_answer, Ok(Ok(_))) {
                tracing::debug!(task = %params.task_id, "cancelling an abandoned task failed");
            }
        });
    }
}
