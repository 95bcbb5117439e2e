//! Calls that became tasks. The client polls a task until it ends, and its handlers answer the questions of the
//! task (MCP extension `io.modelcontextprotocol/tasks`; tasks of 2025-11-25).

use std::collections::HashSet;
use std::pin::pin;
use std::time::Duration;

use mgp_lifecycle::{LifecycleError, TaskTicket};
use mgp_types::mcp::{
    CancelTaskResult, CreateTaskResult, InputRequests, InputResponses, ListParams, ListTasksResult,
    Task, TaskParams, TaskStatus, UpdateTaskParams,
};
use mgp_types::method::{Request, TasksCancel, TasksGet, TasksList, TasksResult, TasksUpdate};
use mgp_types::service::{
    Call, CallKey, CallerRequest, Context, Extensions, HttpFailure, Outlet, OutletItem,
    OutletItemKind, Progress, Reply,
};
use mgp_types::{ErrorCode, Object, Payload, RawObject, Recovery, RpcError};
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::Client;
use super::legacy_task::LegacyTask;
use super::rounds::ensure_known_kind;
use crate::error::Error;
use crate::wire::{TaskCallers, TimeLimits};

/// The poll interval if the server suggests none. The servers of this workspace suggest the same value.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest interval between polls of a task. A shorter interval that the server suggests is not used.
const MIN_INTERVAL: Duration = Duration::from_millis(20);
/// The longest interval between polls of a task.
const MAX_INTERVAL: Duration = Duration::from_mins(1);
/// The maximum number of consecutive failed attempts to get an answer about a task.
const MAX_TRIES: u32 = 8;
/// The number of questions that a task may ask for each of the allowed rounds (`max_rounds`).
const MAX_QUESTIONS_PER_ROUND: usize = 8;
/// The time limit for the server's answer to `tasks/cancel`.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);

impl Client {
    /// Requests the state of a task.
    ///
    /// # Errors
    /// See [`Client::request`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request, not the task.
    pub async fn get_task(&self, task_id: &str) -> Result<Task, Error> {
        self.request::<TasksGet>(&TaskParams::new(task_id)).await
    }

    /// Requests the result of a task, and waits for it within the client's time-out (2025-11-25; in 2026-07-28 the task
    /// itself contains it).
    ///
    /// # Errors
    /// See [`Client::request`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request, not the task.
    pub async fn task_result(&self, task_id: &str) -> Result<RawObject, Error> {
        self.request::<TasksResult>(&TaskParams::new(task_id)).await
    }

    /// Requests a page of the tasks (2025-11-25).
    ///
    /// # Errors
    /// See [`Client::request`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request.
    pub async fn list_tasks_page(&self, cursor: Option<&str>) -> Result<ListTasksResult, Error> {
        let mut params = ListParams::new();
        params.cursor = cursor.map(str::to_owned);
        self.request::<TasksList>(&params).await
    }

    /// Sends the answers that a task waits for (2026-07-28).
    ///
    /// # Errors
    /// See [`Client::request`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request, not the task.
    pub async fn update_task(&self, task_id: &str, answers: InputResponses) -> Result<(), Error> {
        self.request::<TasksUpdate>(&UpdateTaskParams::new(task_id, answers)).await.map(drop)
    }

    /// Cancels a task.
    ///
    /// # Errors
    /// See [`Client::request`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the task may or may not have been cancelled.
    pub async fn cancel_task(&self, task_id: &str) -> Result<CancelTaskResult, Error> {
        self.request::<TasksCancel>(&TaskParams::new(task_id)).await
    }
}

impl Client {
    /// Waits for the result of a task, at most for the maximum duration of its call. The time that the caller takes to
    /// answer questions of the task does not count.
    ///
    /// Dropping the future cancels the task.
    pub(crate) async fn await_task(
        &self,
        cx: &Context,
        created: &Reply,
    ) -> Result<Reply, RpcError> {
        // Create the guard before the other members of the task are read: if one of them is invalid, the guard cancels
        // the task.
        let guard = CancelOnDrop::new(self, created.get::<TaskParams>()?.task_id);
        let created: CreateTaskResult = created.get()?;
        let interval = interval(created.poll_interval_ms, DEFAULT_INTERVAL);
        pass_on(cx, created.poll_interval_ms, created.status_message.as_deref());
        match self.poll_until_ended(cx, guard.params(), interval).await {
            // Dropping the guard here cancels the task.
            Err(TaskFailure::GivenUp(error)) => Err(error),
            Err(TaskFailure::Unknown(error)) => guard.ended(Err(lost_task(error))),
            Ok(task) => guard.ended(outcome(task)),
        }
    }

    async fn poll_until_ended(
        &self,
        cx: &Context,
        params: TaskParams,
        mut interval: Duration,
    ) -> Result<Task, TaskFailure> {
        let mut answered_keys = HashSet::new();
        let mut messages = StatusMessages::new(&cx.outlet);
        let max = self.max_duration(cx);
        let mut time_left = max;
        loop {
            let began = Instant::now();
            let polling = async {
                sleep(interval).await;
                let task = self.request_until_answered::<TasksGet>(cx, &params, interval).await.0;
                if let Ok(task) = &task {
                    messages.forward(task).await;
                }
                task
            };
            let task = within(time_left, max, polling).await.map_err(TaskFailure::GivenUp)?;
            let task: Task = task.map_err(TaskFailure::Unknown)?;
            time_left = time_left.saturating_sub(began.elapsed());
            interval = self::interval(task.poll_interval_ms, interval);
            pass_on(cx, task.poll_interval_ms, task.status_message.as_deref());
            if is_over(&task.status) {
                return Ok(task);
            }
            if task.status == TaskStatus::InputRequired {
                let questions = task.input_requests.unwrap_or_default();
                self.answer_task(cx, &params.task_id, questions, &mut answered_keys, interval)
                    .await
                    .map_err(TaskFailure::GivenUp)?;
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
            // All questions have been answered, and the server has not processed the answers yet, so send nothing.
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

    /// Waits for the result of a task of revision 2025-11-25, at most for the maximum duration of its call. Its server
    /// sends questions as requests; the time that their answers take counts.
    pub(crate) async fn await_legacy_task(
        &self,
        cx: &Context,
        task: LegacyTask,
    ) -> Result<Reply, RpcError> {
        let _caller = self.scope().state::<TaskCallers>().add_task(cx, &task.id);
        let guard = CancelOnDrop::new(self, task.id);
        let interval = interval(task.poll_interval, DEFAULT_INTERVAL);
        pass_on(cx, task.poll_interval, None);
        let max = self.max_duration(cx);
        let params = guard.params();
        let outcome = self.legacy_outcome(cx, &params, interval, max);
        let outcome = within(max, max, outcome).await?;
        guard.ended(outcome)
    }

    /// Requests the outcome of a task of revision 2025-11-25. The server answers when the task has ended.
    async fn legacy_outcome(
        &self,
        cx: &Context,
        params: &TaskParams,
        interval: Duration,
        max: Duration,
    ) -> Result<Reply, RpcError> {
        let mut request_cx = task_context(cx);
        // `within` limits all attempts together, so give each single attempt a longer limit, which never applies.
        let long = max.saturating_add(CANCEL_TIMEOUT);
        request_cx.extensions.insert(TimeLimits { timeout: long, max: long });
        let (mut tries, mut has_ended, mut is_repeated) = (0, false, false);
        loop {
            request_cx.key = CallKey::next();
            let call = Call::ask::<TasksResult>(params, request_cx.clone())?;
            // Do not give up a repeated request, because a long result can take longer to arrive.
            let outcome = if is_repeated {
                self.0.stack.send(call).await
            } else {
                let outcome = self.try_legacy_result(cx, params, call, interval).await;
                is_repeated = outcome.is_none();
                let Some(outcome) = outcome else { continue };
                outcome
            };
            let error = match outcome {
                Ok(reply) => return self.legacy_result(cx, params, reply).await,
                Err(error) => error,
            };
            if !is_from_server(&error) {
                match self.retry_delay(&error, &mut tries, interval) {
                    Some(retry_delay) => sleep(retry_delay).await,
                    None => return Err(error),
                }
            } else if !has_ended && self.await_legacy_end(cx, params, interval).await.is_ok() {
                // The server may have refused the request only because the task was still running, as `FastMCP` does.
                has_ended = true;
            } else {
                // Return the error: the server's own answer after the end of the task is the outcome of the task.
                return Err(error);
            }
        }
    }

    /// Sends a request for the result of a task. Returns `None` if the task has ended, but the request is still not
    /// answered: a server on the Python SDK 1 can overlook the end of a task that ends while the request arrives.
    async fn try_legacy_result(
        &self,
        cx: &Context,
        params: &TaskParams,
        call: Call,
        mut interval: Duration,
    ) -> Option<Result<Reply, RpcError>> {
        let mut sending = pin!(self.0.stack.send(call));
        let (mut wait, mut tries) = (interval, 0);
        loop {
            if let Ok(outcome) = timeout(wait, &mut sending).await {
                return Some(outcome);
            }
            let task = tokio::select! {
                biased;
                outcome = &mut sending => return Some(outcome),
                task = self.task_request::<TasksGet>(cx, params) => task,
            };
            match task {
                Ok(task) if is_over(&task.status) => {
                    return timeout(interval.max(DEFAULT_INTERVAL), sending).await.ok();
                }
                // The call is itself a task of this process, so pass the state of the server's task on to its caller.
                Ok(task) if TaskTicket::of(cx).is_some() => {
                    interval = self::interval(task.poll_interval, interval);
                    (wait, tries) = (interval, 0);
                    pass_on(cx, task.poll_interval, task.status_message.as_deref());
                }
                Err(error) if TaskTicket::of(cx).is_some() => {
                    let Some(retry_delay) = self.retry_delay(&error, &mut tries, interval) else {
                        return Some(sending.await);
                    };
                    wait = retry_delay;
                }
                _ => return Some(sending.await),
            }
        }
    }

    /// Returns the result of a task, or the failure of the task if the result has no content: the Python SDK 1 returns
    /// such a result for a task that has failed.
    async fn legacy_result(
        &self,
        cx: &Context,
        params: &TaskParams,
        reply: Reply,
    ) -> Result<Reply, RpcError> {
        #[derive(Deserialize)]
        struct ToolContent {
            content: Option<Payload>,
        }
        let is_empty = reply.get::<ToolContent>().is_ok_and(|result| result.content.is_none());
        if is_empty
            && let Ok(task) = self.task_request::<TasksGet>(cx, params).await
            && matches!(task.status, TaskStatus::Failed | TaskStatus::Cancelled)
        {
            return outcome(task);
        }
        Ok(reply)
    }

    /// Polls a task of revision 2025-11-25 until it ends. Fails if the server does not report the state of the task.
    async fn await_legacy_end(
        &self,
        cx: &Context,
        params: &TaskParams,
        mut interval: Duration,
    ) -> Result<(), RpcError> {
        let mut messages = StatusMessages::new(&cx.outlet);
        loop {
            let (task, _) = self.request_until_answered::<TasksGet>(cx, params, interval).await;
            let task: Task = task?;
            if is_over(&task.status) {
                return Ok(());
            }
            messages.forward(&task).await;
            interval = self::interval(task.poll_interval, interval);
            pass_on(cx, task.poll_interval, task.status_message.as_deref());
            sleep(interval).await;
        }
    }

    /// Returns the maximum duration of a call with a task: the call's own maximum, or else the maximum of the client.
    fn max_duration(&self, cx: &Context) -> Duration {
        cx.extensions.get::<TimeLimits>().copied().unwrap_or_else(|| self.time_limits()).max
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

    /// Counts a failed attempt; returns the delay before the next attempt, or `None` if no further attempt should be
    /// made.
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

/// A filter that forwards the changes of a task's status message as the progress of its call.
struct StatusMessages<'a> {
    /// The outlet of the call; `None` if its caller wants no progress.
    outlet: Option<&'a Outlet>,
    last: Option<String>,
    count: f64,
}

impl<'a> StatusMessages<'a> {
    fn new(outlet: &'a Outlet) -> Self {
        let outlet = Some(outlet).filter(|outlet| outlet.wants(OutletItemKind::Progress));
        Self { outlet, last: None, count: 0.0 }
    }

    /// Forwards the status message of a running task, if the message is new.
    async fn forward(&mut self, task: &Task) {
        let Some(outlet) = self.outlet else { return };
        let is_new = task.status_message.is_some() && task.status_message != self.last;
        if !is_new || is_over(&task.status) {
            return;
        }
        self.last.clone_from(&task.status_message);
        self.count += 1.0;
        let message = task.status_message.clone();
        let step = Progress { progress: self.count, message, ..Progress::default() };
        // Ignore an error: the receiver of the progress is gone, so the call is about to be dropped.
        let _ = outlet.send(OutletItem::Progress(step)).await;
    }
}

/// Returns whether a task with this status has ended. A status that only a later revision defines does not end a task.
fn is_over(status: &TaskStatus) -> bool {
    matches!(status, TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled)
}

/// A reason to stop waiting for a task before its end.
enum TaskFailure {
    /// The state of the task is unknown, because the server does not report it; the task may still run.
    Unknown(RpcError),
    /// A question of the task could not be answered, or the time of its call is over.
    GivenUp(RpcError),
}

/// Returns the error of a call whose task is lost. A server that no longer knows the task, e.g. after a restart,
/// refuses its id, but the params of the caller's own request are valid.
fn lost_task(error: RpcError) -> RpcError {
    if error.code() != ErrorCode::INVALID_PARAMS {
        return error;
    }
    let message = format!("the server lost the task of the call: {}", error.message());
    let lost = RpcError::new(ErrorCode::UPSTREAM_ERROR, message);
    // Keep the HTTP failure: with it, layers treat the outcome of the call as unknown.
    match HttpFailure::from_error(&error) {
        Some(failure) => lost.because(failure),
        None => lost,
    }
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

/// Waits for a future, at most for the time that is left of the maximum duration of a call.
async fn within<T>(
    time_left: Duration,
    max: Duration,
    work: impl Future<Output = T>,
) -> Result<T, RpcError> {
    // If the deadline is too late to be represented, wait without a limit.
    let Some(deadline) = Instant::now().checked_add(time_left) else { return Ok(work.await) };
    timeout_at(deadline, work).await.map_err(|_| LifecycleError::TotalTimedOut(max).into())
}

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

/// Passes the poll interval and the status message of the server's task on to the caller, if the call is a task of this
/// process as well.
fn pass_on(cx: &Context, poll_interval: Option<u64>, status_message: Option<&str>) {
    let Some(ticket) = TaskTicket::of(cx) else { return };
    if let Some(ms) = poll_interval {
        ticket.recommend_interval(Duration::from_millis(ms));
    }
    if let Some(message) = status_message {
        ticket.set_status_message(message);
    }
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

/// A guard that cancels a task when it is dropped, unless it was disarmed by [`ended`](Self::ended).
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

    /// Disarms the guard, because the task has ended or its state is unknown, and returns the outcome.
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
