//! One task, with its state, its open questions and its outcome.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Duration;

use mgp_types::mcp::{
    CreateTaskResult, Era, LegacyCreateTaskResult, ResultType, Task, TaskStatus, key,
};
use mgp_types::service::{
    CallKey, CallerRequest, Context, CredentialGrant, PeerInfo, Reply, is_tool_error,
};
use mgp_types::sync::Mutex;
use mgp_types::{Nullable, Payload, RpcError, Timestamp};
use serde::Serialize;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::error::LifecycleError;
use crate::handshake::plain_errors::CallInfo;
use crate::limit::Caller;

/// The maximum time until a task expires, so that the sum with the current time cannot overflow.
const MAX_TTL: Duration = Duration::from_hours(24 * 365 * 100);

pub(super) struct Entry {
    pub(super) id: String,
    /// The caller that started the task; only the same caller can see it.
    pub(super) owner: Caller,
    /// The permissions of the credentials that started the task; `None` for a caller without credentials.
    permissions: Option<Vec<String>>,
    /// The sequence number of the task, in the order of creation.
    pub(super) number: u64,
    pub(super) expires: Instant,
    /// The negotiated properties of the caller that determine the form of the outcome.
    pub(super) caller: Arc<PeerInfo>,
    /// The properties of the call that determine the form of the outcome.
    pub(super) info: CallInfo,
    pub(super) changed: Notify,
    pub(super) driver: OnceLock<AbortHandle>,
    era: Era,
    created: Timestamp,
    ttl_ms: u64,
    poll_ms: AtomicU64,
    state: Mutex<EntryState>,
}

struct EntryState {
    outcome: Option<Outcome>,
    /// `true` if the result reports that the tool failed. Such a task has failed in the form of MCP 2025-11-25; in the
    /// modern form, it is completed.
    is_tool_error: bool,
    updated: Timestamp,
    /// The description of the running call that its handler has set.
    status_message: Option<String>,
    questions: BTreeMap<String, Question>,
    answers: HashMap<String, Payload>,
    /// The callers that wait in `tasks/result`. A question to a legacy caller is sent over one of these requests.
    waiting: Vec<Context>,
    delivered: bool,
    removed: bool,
    driver: Option<Waker>,
}

struct Question {
    ask: CallerRequest,
    askers: usize,
}

/// The way a task ended.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    Completed(Payload),
    Failed(RpcError),
    Cancelled,
}

impl Outcome {
    /// Converts the outcome of a call. The reply must already have the form that the caller expects.
    pub(super) fn of(outcome: Result<Reply, RpcError>) -> Self {
        match outcome {
            Ok(Reply::Complete(body)) => match String::from_utf8(body.to_json()) {
                Ok(text) => Self::Completed(Payload::from_trusted(text)),
                Err(_) => Self::Failed(LifecycleError::TaskWithoutResult.into()),
            },
            Ok(Reply::None) => Self::Cancelled,
            Ok(_) => Self::Failed(LifecycleError::TaskWithoutResult.into()),
            Err(error) => Self::Failed(error),
        }
    }

    /// Returns whether the outcome is the result of a tool that failed.
    fn is_tool_error(&self) -> bool {
        let Self::Completed(result) = self else { return false };
        Reply::raw(result.clone()).as_body().is_some_and(is_tool_error)
    }
}

impl EntryState {
    fn ended(&self) -> Option<TaskStatus> {
        Some(match self.outcome.as_ref()? {
            Outcome::Completed(_) if self.is_tool_error => TaskStatus::Failed,
            Outcome::Completed(_) => TaskStatus::Completed,
            Outcome::Failed(_) => TaskStatus::Failed,
            Outcome::Cancelled => TaskStatus::Cancelled,
        })
    }
}

impl Entry {
    pub(super) fn new(
        id: String,
        number: u64,
        cx: &Context,
        era: Era,
        ttl: Duration,
        poll: Duration,
    ) -> Self {
        let created = Timestamp::now();
        let grant = cx.extensions.get::<CredentialGrant>();
        Self {
            id,
            owner: Caller::of(&cx.principal),
            permissions: grant.map(|grant| grant.permissions().to_vec()),
            number,
            expires: Instant::now() + ttl.min(MAX_TTL),
            caller: Arc::clone(&cx.caller),
            info: CallInfo::of_tool_call(cx),
            changed: Notify::new(),
            driver: OnceLock::new(),
            era,
            ttl_ms: mgp_types::millis(ttl),
            poll_ms: AtomicU64::new(mgp_types::millis(poll)),
            state: Mutex::new(EntryState {
                outcome: None,
                is_tool_error: false,
                updated: created.clone(),
                status_message: None,
                questions: BTreeMap::new(),
                answers: HashMap::new(),
                waiting: Vec::new(),
                delivered: false,
                removed: false,
                driver: None,
            }),
            created,
        }
    }

    /// Returns whether the credentials of a call of the owner permit the use of the task. Credentials that are limited
    /// to some tools permit only tasks that were started with the same permissions.
    pub(super) fn is_permitted(&self, cx: &Context) -> bool {
        let grant = cx.extensions.get::<CredentialGrant>();
        grant.is_none_or(|grant| grant.permits_outcome(self.permissions.as_deref()))
    }

    /// Returns the poll interval that is recommended to the caller.
    pub(super) fn poll_interval(&self) -> Duration {
        Duration::from_millis(self.poll_ms.load(Ordering::Relaxed))
    }

    pub(super) fn set_poll_interval(&self, interval: Duration) {
        self.poll_ms.store(mgp_types::millis(interval), Ordering::Relaxed);
    }

    /// Sets the description of the running call.
    pub(super) fn set_status_message(&self, message: String) {
        let mut state = self.state.lock();
        if state.outcome.is_none() && state.status_message.as_ref() != Some(&message) {
            state.status_message = Some(message);
            state.updated = Timestamp::now();
        }
    }

    // === The outcome ===

    /// Ends the task with this outcome, unless it has ended already.
    pub(super) fn end(&self, outcome: Outcome) {
        let is_tool_error = outcome.is_tool_error();
        let waker = {
            let mut state = self.state.lock();
            if state.outcome.is_some() {
                return;
            }
            state.outcome = Some(outcome);
            state.is_tool_error = is_tool_error;
            state.updated = Timestamp::now();
            state.questions.clear();
            state.driver.take()
        };
        self.changed.notify_waiters();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Returns whether the task has ended. If not, `waker` will be woken when it ends.
    pub(super) fn poll_ended(&self, waker: &Waker) -> bool {
        let mut state = self.state.lock();
        if state.outcome.is_none() {
            state.driver = Some(waker.clone());
        }
        state.outcome.is_some()
    }

    /// Returns the outcome and marks it as delivered. Returns an error if the task was removed, and `None` while the
    /// task is running.
    pub(super) fn outcome(&self) -> Option<Result<Outcome, LifecycleError>> {
        let mut state = self.state.lock();
        if state.removed {
            return Some(Err(LifecycleError::UnknownTask));
        }
        self.deliver(&mut state);
        state.outcome.clone().map(Ok)
    }

    /// Marks the outcome, if any, as delivered.
    fn deliver(&self, state: &mut EntryState) {
        if state.outcome.is_some() && !std::mem::replace(&mut state.delivered, true) {
            self.changed.notify_waiters();
        }
    }

    /// Waits until the outcome has been delivered.
    pub(super) async fn delivered(&self) {
        loop {
            let changed = self.changed.notified();
            if self.is_delivered() {
                return;
            }
            changed.await;
        }
    }

    /// Returns whether the outcome has been delivered, so that the task can be evicted.
    pub(super) fn is_delivered(&self) -> bool {
        self.state.lock().delivered
    }

    /// Cancels the task.
    ///
    /// # Errors
    /// Returns an error with the task's status if the task has already ended.
    pub(super) fn cancel(&self) -> Result<(), TaskStatus> {
        let ended = {
            let mut state = self.state.lock();
            state.delivered = true;
            state.ended()
        };
        if let Some(status) = ended {
            // By cancelling, the caller has shown that it does not need the outcome, so it counts as delivered; notify
            // the futures that wait for the delivery.
            self.changed.notify_waiters();
            return Err(status);
        }
        self.end(Outcome::Cancelled);
        Ok(())
    }

    /// Stops the driver of a task that was removed from the table, and wakes the callers that wait for it.
    pub(super) fn on_removed(&self) {
        self.state.lock().removed = true;
        if let Some(driver) = self.driver.get() {
            driver.abort();
        }
        self.changed.notify_waiters();
    }

    pub(super) fn is_removed(&self) -> bool {
        self.state.lock().removed
    }

    // === Questions ===

    /// Adds a question for the caller of the task. It stays open until it is answered or the guard is dropped.
    pub(super) fn open_question(self: &Arc<Self>, key: &str, ask: CallerRequest) -> OpenQuestion {
        let mut state = self.state.lock();
        if state.outcome.is_none() && !state.answers.contains_key(key) {
            state.questions.entry(key.to_owned()).or_insert(Question { ask, askers: 0 }).askers +=
                1;
            state.updated = Timestamp::now();
        }
        OpenQuestion { entry: Arc::clone(self), key: key.to_owned() }
    }

    pub(super) fn answer(&self, key: &str) -> Option<Payload> {
        self.state.lock().answers.get(key).cloned()
    }

    /// Accepts answers to open questions; other answers are ignored, as MCP requires.
    pub(super) fn accept_answers<'a>(&self, answers: impl Iterator<Item = (&'a str, &'a Payload)>) {
        {
            let mut state = self.state.lock();
            for (key, answer) in answers {
                if state.questions.remove(key).is_some() {
                    state.answers.insert(key.to_owned(), answer.clone());
                    state.updated = Timestamp::now();
                }
            }
        }
        self.changed.notify_waiters();
    }

    // === Waiting callers (MCP 2025-11-25) ===

    pub(super) fn add_waiting(self: &Arc<Self>, cx: &Context) -> WaitingCaller {
        self.state.lock().waiting.push(cx.clone());
        self.changed.notify_waiters();
        WaitingCaller { entry: Arc::clone(self), key: cx.key }
    }

    pub(super) fn latest_waiting(&self) -> Option<Context> {
        self.state.lock().waiting.last().cloned()
    }

    // === Wire forms ===

    /// Returns the reply to the call that became this task. The status in it is `working` even if the task has ended
    /// since.
    pub(super) fn created(&self) -> Result<Reply, RpcError> {
        match self.era {
            Era::Modern => {
                let mut result = CreateTaskResult::new(
                    self.id.clone(),
                    TaskStatus::Working,
                    self.created.clone(),
                    self.created.clone(),
                );
                result.status_message = Some(WORKING_MESSAGE.to_owned());
                result.ttl_ms = Some(self.ttl_ms);
                result.poll_interval_ms = Some(self.poll_ms.load(Ordering::Relaxed));
                match Reply::of(&result)? {
                    Reply::Complete(body) => Ok(Reply::Task(body)),
                    other => Ok(other),
                }
            }
            Era::Legacy => {
                let mut task = self.task(TaskStatus::Working, self.created.clone(), Era::Legacy);
                task.status_message = Some(WORKING_MESSAGE.to_owned());
                Reply::of(&LegacyCreateTaskResult::new(task))
            }
        }
    }

    /// Returns the task in the form of an era. The modern form includes open questions and the outcome.
    pub(super) fn describe(&self, era: Era) -> Result<Reply, RpcError> {
        let mut state = self.state.lock();
        self.deliver(&mut state);
        let task = self.snapshot(&state, era);
        let mut reply = Reply::of(&task)?;
        let (Era::Modern, Some(body)) = (era, reply.as_body_mut()) else { return Ok(reply) };
        match &state.outcome {
            Some(Outcome::Completed(result)) => body.insert("result", result.clone()),
            Some(Outcome::Failed(error)) => body.insert("error", Payload::of(error)?),
            None if self.has_questions(&state, era) => {
                body.insert("inputRequests", input_requests(&state.questions)?);
            }
            Some(Outcome::Cancelled) | None => {}
        }
        Ok(reply)
    }

    /// Returns the task without its outcome, in the form of MCP 2025-11-25.
    pub(super) fn summary(&self) -> Task {
        self.snapshot(&self.state.lock(), Era::Legacy)
    }

    fn snapshot(&self, state: &EntryState, era: Era) -> Task {
        let (status, message) = match &state.outcome {
            Some(Outcome::Completed(_)) if state.is_tool_error && era == Era::Legacy => {
                (TaskStatus::Failed, "the tool reported an error".to_owned())
            }
            Some(Outcome::Completed(_)) => {
                (TaskStatus::Completed, "the tool has answered".to_owned())
            }
            Some(Outcome::Failed(error)) => (TaskStatus::Failed, error.message().to_owned()),
            Some(Outcome::Cancelled) => {
                (TaskStatus::Cancelled, "cancelled by its caller".to_owned())
            }
            None if self.has_questions(state, era) => {
                let keys: Vec<&str> = state.questions.keys().map(String::as_str).collect();
                (TaskStatus::InputRequired, format!("waiting for answers: {}", keys.join(", ")))
            }
            None => {
                let message = state.status_message.as_deref().unwrap_or(WORKING_MESSAGE);
                (TaskStatus::Working, message.to_owned())
            }
        };
        let mut task = self.task(status, state.updated.clone(), era);
        task.status_message = Some(message);
        task
    }

    /// Returns whether the task has open questions in the form of an era. The modern form of a legacy task has none:
    /// its questions are sent to its caller as requests, so `tasks/update` cannot answer them.
    fn has_questions(&self, state: &EntryState, era: Era) -> bool {
        !state.questions.is_empty() && (self.era == Era::Modern || era == Era::Legacy)
    }

    fn task(&self, status: TaskStatus, updated: Timestamp, era: Era) -> Task {
        let mut task = Task::new(self.id.clone(), status, self.created.clone());
        task.last_updated_at = Some(updated);
        match era {
            Era::Modern => {
                task.result_type = Some(ResultType::Complete);
                task.ttl_ms = Nullable::Value(self.ttl_ms);
                task.poll_interval_ms = Some(self.poll_ms.load(Ordering::Relaxed));
            }
            Era::Legacy => {
                task.ttl = Nullable::Value(self.ttl_ms);
                task.poll_interval = Some(self.poll_ms.load(Ordering::Relaxed));
            }
        }
        task
    }

    /// Returns the `_meta` member that names the task (MCP 2025-11-25).
    pub(super) fn related_task_meta(&self) -> (&'static str, Payload) {
        (key::RELATED_TASK, Payload::from_trusted(format!(r#"{{"taskId":"{}"}}"#, self.id)))
    }
}

const WORKING_MESSAGE: &str = "the tool is running";

fn input_requests(questions: &BTreeMap<String, Question>) -> Result<Payload, RpcError> {
    #[derive(Serialize)]
    struct InputRequest<'a> {
        method: &'a str,
        params: &'a Payload,
    }
    let all: BTreeMap<&str, InputRequest<'_>> = questions
        .iter()
        .map(|(key, Question { ask, .. })| {
            (key.as_str(), InputRequest { method: ask.method(), params: ask.params() })
        })
        .collect();
    Payload::of(&all)
}

// The id gives access to the task like a key, so it must not appear in program logs.
mgp_types::opaque_debug!(Entry { number });

/// A guard that keeps a question open until the guard is dropped.
#[derive(Debug)]
pub(super) struct OpenQuestion {
    entry: Arc<Entry>,
    key: String,
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        let mut state = self.entry.state.lock();
        let Some(question) = state.questions.get_mut(&self.key) else { return };
        question.askers -= 1;
        if question.askers == 0 {
            state.questions.remove(&self.key);
            state.updated = Timestamp::now();
        }
    }
}

/// A guard that counts a caller as waiting until the guard is dropped.
#[derive(Debug)]
pub(super) struct WaitingCaller {
    entry: Arc<Entry>,
    key: CallKey,
}

impl Drop for WaitingCaller {
    fn drop(&mut self) {
        self.entry.state.lock().waiting.retain(|cx| cx.key != self.key);
    }
}
