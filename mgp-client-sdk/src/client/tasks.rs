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
use mgp_types::service::{Ask, Call, CallKey, Context, Extensions, Outlet, Reply};
use mgp_types::{ErrorCode, Object, Payload, RpcError};
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until, timeout};

use super::Client;
use super::rounds::known;
use crate::wire::Allowance;

/// How often a server is asked that does not say how often; it is what our own servers say.
const INTERVAL: Duration = Duration::from_secs(1);
/// No server is asked more often than that, whatever it says,
const SHORTEST: Duration = Duration::from_millis(20);
/// nor less often.
const LONGEST: Duration = Duration::from_mins(1);
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
        let began = Instant::now();
        // Too far away to be written means never.
        let end = began.checked_add(max);
        let abandoned = Abandoned::new(self, created.task_id);
        let mut answered = HashSet::new();
        let mut interval = interval(created.poll_interval_ms, INTERVAL);
        loop {
            let next = Instant::now() + interval;
            if end.is_some_and(|end| next >= end) {
                if let Some(end) = end {
                    sleep_until(end).await;
                }
                // Its guard cancels it.
                return Err(Refusal::TimedOut(max).into());
            }
            sleep_until(next).await;
            let task: Task = self.about_task::<TasksGet>(cx, &abandoned.params()).await?;
            interval = self::interval(task.poll_interval_ms, interval);
            match task.status {
                TaskStatus::InputRequired => {
                    let asked = task.input_requests.unwrap_or_default();
                    self.answer_task(cx, &abandoned.id, asked, &mut answered).await?;
                }
                TaskStatus::Completed => {
                    abandoned.ended();
                    let result = task.result.ok_or_else(|| {
                        RpcError::internal("the task is completed and has no result")
                    })?;
                    return known(Reply::raw(result.into()));
                }
                TaskStatus::Failed => {
                    abandoned.ended();
                    return Err(task.error.unwrap_or_else(|| {
                        let why = task.status_message.as_deref().unwrap_or("it does not say why");
                        RpcError::internal(format!("the task failed: {why}"))
                    }));
                }
                TaskStatus::Cancelled => {
                    abandoned.ended();
                    return Err(RpcError::internal("the task was cancelled by the server"));
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
        if answered.len() + open.len() > self.0.max_rounds as usize * QUESTIONS {
            let message = format!("the task asked more than {} things", answered.len());
            return Err(RpcError::new(ErrorCode::RESOURCE_EXHAUSTED, message));
        }
        let keys: Vec<_> = open.iter().map(|(key, _)| key.clone()).collect();
        let answers: Object = self.answers(cx, open).await?;
        let params = UpdateTaskParams::new(id, answers);
        self.about_task::<TasksUpdate>(cx, &params).await?;
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
        let mut cx = about(cx);
        cx.extensions.insert(Allowance { timeout: max, max });
        let call = Call::ask::<TasksResult>(&abandoned.params(), cx)?;
        let outcome = self.0.stack.send(call).await;
        if !matches!(&outcome, Err(error) if error.code() == ErrorCode::TIMEOUT) {
            abandoned.ended();
        }
        outcome
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

    /// The task ended, so there is nothing to cancel.
    fn ended(mut self) {
        self.client = None;
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
