//! Calls that became tasks: asked for until they end, with the handlers answering what they ask
//! (MCP extension `io.modelcontextprotocol/tasks`; tasks of 2025-11-25).
//!
//! Applies to: outbound.

use std::collections::HashSet;
use std::time::Duration;

use mgp_lifecycle::Refusal;
use mgp_types::mcp::{
    CancelTaskResult, CreateTaskResult, InputRequests, Task, TaskParams, TaskStatus,
    UpdateTaskParams,
};
use mgp_types::method::{Request, TasksCancel, TasksGet, TasksResult, TasksUpdate};
use mgp_types::service::{Ask, Call, CallKey, Context, Extensions, HttpFault, Outlet, Reply};
use mgp_types::{ErrorCode, Object, Payload, Recovery, RpcError};
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::Client;
use super::rounds::known;
use crate::wire::Allowance;

/// How often a server is asked that does not say how often; it is what our own servers say.
const INTERVAL: Duration = Duration::from_secs(1);
/// No server is asked more often than that, whatever it says,
const SHORTEST: Duration = Duration::from_millis(20);
/// nor less often.
const LONGEST: Duration = Duration::from_mins(1);
/// How often in a row a server is asked that does not say how its task is.
const TRIES: u32 = 8;
/// How long a server may take to hear that nobody waits for its task any more.
const FAREWELL: Duration = Duration::from_secs(10);

impl Client {
    /// Waits for the outcome of a task, as long as the call it was may take.
    ///
    /// Dropping the future cancels the task.
    pub(crate) async fn see_through(
        &self,
        cx: &Context,
        created: &Reply,
        max: Duration,
    ) -> Result<Reply, RpcError> {
        let created: CreateTaskResult = created.get()?;
        let interval = interval(created.poll_interval_ms, INTERVAL);
        let abandoned = Abandoned::new(self, created.task_id);
        let asking = self.ask_until_over(cx, abandoned.params(), interval);
        match within(max, asking).await? {
            // Its guard cancels it: nobody will answer it.
            Err(Trouble::Unanswered(error)) => Err(error),
            Err(Trouble::Unknown(error)) => abandoned.ended(Err(error)),
            Ok(task) => abandoned.ended(outcome(task)),
        }
    }

    /// Asks for a task until it ends.
    async fn ask_until_over(
        &self,
        cx: &Context,
        params: TaskParams,
        mut interval: Duration,
    ) -> Result<Task, Trouble> {
        let mut answered = HashSet::new();
        loop {
            sleep(interval).await;
            let (task, _) = self.insist::<TasksGet>(cx, &params, interval).await;
            let task: Task = task.map_err(Trouble::Unknown)?;
            interval = self::interval(task.poll_interval_ms, interval);
            match task.status {
                TaskStatus::InputRequired => {
                    let asked = task.input_requests.unwrap_or_default();
                    self.answer_task(cx, &params.task_id, asked, &mut answered, interval)
                        .await
                        .map_err(Trouble::Unanswered)?;
                }
                TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled => {
                    return Ok(task);
                }
                // A word of a later revision is no end.
                _ => {}
            }
        }
    }

    /// Has the handlers answer what a task asks and was not answered yet.
    async fn answer_task(
        &self,
        cx: &Context,
        id: &str,
        asked: InputRequests,
        answered: &mut HashSet<String>,
        interval: Duration,
    ) -> Result<(), RpcError> {
        let mut open = Vec::new();
        for (key, request) in asked {
            if !answered.contains(&key) {
                open.push((key, question(&Payload::of(&request)?)?));
            }
        }
        if open.is_empty() {
            // The server has the answer and did not get to it yet.
            return Ok(());
        }
        let bound = (self.0.max_rounds as usize).saturating_mul(QUESTIONS);
        if answered.len() + open.len() > bound {
            let message = format!(
                "the task asked more than {bound} things, {QUESTIONS} for each of `max_rounds`; \
                 raise that if the task is right"
            );
            return Err(RpcError::new(ErrorCode::RESOURCE_EXHAUSTED, message));
        }
        let keys: Vec<_> = open.iter().map(|(key, _)| key.clone()).collect();
        let answers: Object = self.answers(cx, open).await?;
        let params = UpdateTaskParams::new(id, answers);
        let (taken, tries) = self.insist::<TasksUpdate>(cx, &params, interval).await;
        if let Err(error) = taken {
            if tries == 1 {
                return Err(error);
            }
            // An attempt that seemed to fail may have arrived; the next look at the task tells.
            tracing::debug!(task = id, %error, "an answer was refused the second time");
        }
        answered.extend(keys);
        Ok(())
    }

    /// Waits for the outcome of a task of 2025-11-25, whose server asks and answers by itself meanwhile.
    pub(crate) async fn see_legacy_through(
        &self,
        cx: &Context,
        task: Task,
        max: Duration,
    ) -> Result<Reply, RpcError> {
        let abandoned = Abandoned::new(self, task.task_id);
        let interval = interval(task.poll_interval_ms, INTERVAL);
        let (params, mut cx) = (abandoned.params(), about(cx));
        // The bound is kept here, over all attempts.
        let long = max.saturating_add(FAREWELL);
        cx.extensions.insert(Allowance { timeout: long, max: long });
        let asking = async {
            let mut tries = 0;
            loop {
                cx.key = CallKey::next();
                let call = Call::ask::<TasksResult>(&params, cx.clone())?;
                let outcome = self.0.stack.send(call).await;
                // Whatever the server itself says is the outcome of the task, an error like a result.
                match outcome.as_ref().err().filter(|error| !is_said(error)) {
                    Some(error) => match self.pause(error, &mut tries, interval) {
                        Some(pause) => sleep(pause).await,
                        None => return outcome,
                    },
                    None => return outcome,
                }
            }
        };
        let outcome = within(max, asking).await?;
        abandoned.ended(outcome)
    }

    /// Asks about a task until the server says something to it, a bounded number of times; says how often it was asked.
    ///
    /// A task outlives a connection that breaks and a proxy that fails, so neither is its end.
    async fn insist<R: Request>(
        &self,
        cx: &Context,
        params: &R::Params,
        interval: Duration,
    ) -> (Result<R::Result, RpcError>, u32) {
        let mut tries = 0;
        loop {
            let outcome = self.about_task::<R>(cx, params).await;
            let pause =
                outcome.as_ref().err().and_then(|error| self.pause(error, &mut tries, interval));
            match pause {
                Some(pause) => sleep(pause).await,
                None => return (outcome, tries.max(1)),
            }
        }
    }

    /// How long to wait before the server is asked about a task once more; `None` where that would not help.
    fn pause(&self, error: &RpcError, tries: &mut u32, interval: Duration) -> Option<Duration> {
        *tries += 1;
        if !is_passing(error) || *tries >= TRIES || self.is_closed() {
            return None;
        }
        tracing::debug!(%error, tries, "a server did not say how its task is");
        let said = error.as_recovery().and_then(|hints| hints.retry_after_ms);
        let least = Duration::from_millis(said.unwrap_or_default());
        Some(interval.saturating_mul(1 << (*tries - 1).min(16)).max(least).min(LONGEST))
    }

    /// A request about the task of a call: under the same principal and trace, and nothing else of it.
    async fn about_task<R: Request>(
        &self,
        cx: &Context,
        params: &R::Params,
    ) -> Result<R::Result, RpcError> {
        self.0.stack.send(Call::ask::<R>(params, about(cx))?).await?.get()
    }
}

/// Why a task is not waited for any longer, short of its end.
enum Trouble {
    /// The server does not say how it is; it may run on.
    Unknown(RpcError),
    /// It asks what nobody answers.
    Unanswered(RpcError),
}

/// Whether another attempt may go better.
fn is_passing(error: &RpcError) -> bool {
    match HttpFault::of(error) {
        Some(HttpFault::Unreached | HttpFault::Cut) => true,
        Some(HttpFault::Status(status) | HttpFault::Answered(status)) => {
            matches!(status, 408 | 425 | 429 | 500..)
        }
        _ => Recovery::for_repeatable(error.code()).is_some_and(|hints| hints.is_retryable()),
    }
}

/// Whether the server itself said so, and not the way to it.
fn is_said(error: &RpcError) -> bool {
    match HttpFault::of(error) {
        None => true,
        Some(HttpFault::Answered(status)) => !matches!(status, 408 | 425 | 429 | 503),
        Some(_) => false,
    }
}

/// What came of a task that is over.
fn outcome(task: Task) -> Result<Reply, RpcError> {
    match task.status {
        TaskStatus::Completed => {
            let result = task
                .result
                .ok_or_else(|| RpcError::internal("the task is completed and has no result"))?;
            known(Reply::raw(result.into()))
        }
        TaskStatus::Failed => Err(task.error.unwrap_or_else(|| {
            let why = task.status_message.as_deref().unwrap_or("it does not say why");
            RpcError::internal(format!("the task failed: {why}"))
        })),
        _ => Err(RpcError::internal("the task was cancelled by the server")),
    }
}

/// Waits for something no longer than a call may take.
async fn within<T>(max: Duration, work: impl Future<Output = T>) -> Result<T, RpcError> {
    // Too far away to be written means never.
    let Some(end) = Instant::now().checked_add(max) else { return Ok(work.await) };
    timeout_at(end, work).await.map_err(|_| Refusal::TimedOut(max).into())
}

/// How many questions a task may ask for each round that a call may take.
const QUESTIONS: usize = 8;

fn about(cx: &Context) -> Context {
    let mut cx = cx.clone();
    cx.key = CallKey::next();
    cx.logical = None;
    cx.outlet = Outlet::none();
    cx.extensions = Extensions::default();
    cx
}

fn interval(said: Option<u64>, else_: Duration) -> Duration {
    said.map_or(else_, |ms| Duration::from_millis(ms).clamp(SHORTEST, LONGEST))
}

fn question(request: &Payload) -> Result<Ask, RpcError> {
    #[derive(Deserialize)]
    struct Question {
        method: String,
        params: Option<Payload>,
    }
    let question: Question = request.get()?;
    Ok(Ask::new(question.method, question.params.unwrap_or_else(Payload::empty_object)))
}

/// Cancels a task that nobody waits for any more.
struct Abandoned {
    client: Option<Client>,
    id: String,
}

impl Abandoned {
    fn new(client: &Client, id: String) -> Self {
        Self { client: Some(client.clone()), id }
    }

    fn params(&self) -> TaskParams {
        TaskParams::new(self.id.clone())
    }

    /// The task ended, as far as one can know: there is nothing to cancel.
    fn ended<T>(mut self, outcome: T) -> T {
        self.client = None;
        outcome
    }
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        // Without a runtime the connection is gone as well.
        let (Some(client), Ok(runtime)) = (self.client.take(), Handle::try_current()) else {
            return;
        };
        if client.is_closed() {
            return;
        }
        let params = self.params();
        runtime.spawn(async move {
            let cancelled = client.request::<TasksCancel>(&params);
            let told: Result<Result<CancelTaskResult, _>, _> = timeout(FAREWELL, cancelled).await;
            if !matches!(told, Ok(Ok(_))) {
                tracing::debug!(task = %params.task_id, "a task that nobody waits for could not be cancelled");
            }
        });
    }
}
