//! One task: how far it is, what it asks, what it ended in.
//!
//! Applies to: inbound.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Duration;

use mgp_types::mcp::{
    CreateTaskResult, Era, LegacyCreateTaskResult, ResultType, Task, TaskStatus, key,
};
use mgp_types::service::{Ask, CallKey, Context, Facts, Reply};
use mgp_types::{Maybe, Payload, RpcError, Timestamp};
use serde::Serialize;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::table::Owner;
use crate::error::Refusal;

/// A task in the table.
pub(super) struct Entry {
    pub(super) id: String,
    pub(super) owner: Owner,
    /// The place in the order of creation.
    pub(super) number: u64,
    pub(super) expires: Instant,
    /// What the caller negotiated, for the words of the outcome.
    pub(super) caller: Arc<Facts>,
    /// Tells of every change of `state`.
    pub(super) changed: Notify,
    pub(super) driver: OnceLock<AbortHandle>,
    era: Era,
    created: Timestamp,
    ttl_ms: u64,
    poll_ms: u64,
    state: Mutex<State>,
}

struct State {
    outcome: Option<Outcome>,
    updated: Timestamp,
    questions: BTreeMap<String, Question>,
    answers: HashMap<String, Payload>,
    /// Callers that wait in `tasks/result`: requests to a legacy caller go their way.
    waiting: Vec<Context>,
    delivered: bool,
    gone: bool,
    driver: Option<Waker>,
}

struct Question {
    ask: Ask,
    asked_by: usize,
}

/// What a task ended in.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    Completed(Payload),
    Failed(RpcError),
    Cancelled,
}

impl Outcome {
    /// Reads what the call ended with, already in the caller's words.
    pub(super) fn of(outcome: Result<Reply, RpcError>) -> Self {
        match outcome {
            Ok(Reply::Complete(body)) => match String::from_utf8(body.to_json()) {
                Ok(text) => Self::Completed(Payload::from_trusted(text)),
                Err(_) => Self::Failed(Refusal::TaskWithoutResult.into()),
            },
            Ok(Reply::None) => Self::Cancelled,
            Ok(_) => Self::Failed(Refusal::TaskWithoutResult.into()),
            Err(error) => Self::Failed(error),
        }
    }

    fn status(&self) -> TaskStatus {
        match self {
            Self::Completed(_) => TaskStatus::Completed,
            Self::Failed(_) => TaskStatus::Failed,
            Self::Cancelled => TaskStatus::Cancelled,
        }
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
        Self {
            id,
            owner: Owner::of(&cx.principal),
            number,
            expires: Instant::now() + ttl,
            caller: Arc::clone(&cx.caller),
            changed: Notify::new(),
            driver: OnceLock::new(),
            era,
            ttl_ms: u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX),
            poll_ms: u64::try_from(poll.as_millis()).unwrap_or(u64::MAX),
            state: Mutex::new(State {
                outcome: None,
                updated: created.clone(),
                questions: BTreeMap::new(),
                answers: HashMap::new(),
                waiting: Vec::new(),
                delivered: false,
                gone: false,
                driver: None,
            }),
            created,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // === The end ===

    /// Ends the task; what it ended in first stays.
    pub(super) fn end(&self, outcome: Outcome) {
        let waker = {
            let mut state = self.state();
            if state.outcome.is_some() {
                return;
            }
            state.outcome = Some(outcome);
            state.updated = Timestamp::now();
            state.questions.clear();
            state.driver.take()
        };
        self.changed.notify_waiters();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether the task ended; else who drives it is woken when it does.
    pub(super) fn has_ended_or_wakes(&self, waker: &Waker) -> bool {
        let mut state = self.state();
        if state.outcome.is_none() {
            state.driver = Some(waker.clone());
        }
        state.outcome.is_some()
    }

    /// What the task ended in, or that nobody keeps it any more; handing it out counts as delivery.
    pub(super) fn outcome(&self) -> Option<Result<Outcome, Refusal>> {
        let mut state = self.state();
        if state.gone {
            return Some(Err(Refusal::UnknownTask));
        }
        self.deliver(&mut state);
        state.outcome.clone().map(Ok)
    }

    /// Its caller learns the outcome, where there is one.
    fn deliver(&self, state: &mut State) {
        if state.outcome.is_some() && !std::mem::replace(&mut state.delivered, true) {
            self.changed.notify_waiters();
        }
    }

    /// Waits until the caller has asked for the outcome.
    pub(super) async fn delivered(&self) {
        loop {
            let changed = self.changed.notified();
            if self.is_delivered() {
                return;
            }
            changed.await;
        }
    }

    /// Whether the task ended and its caller knows, so that it may give way to another.
    pub(super) fn is_delivered(&self) -> bool {
        self.state().delivered
    }

    /// Cancels the task.
    ///
    /// # Errors
    /// The status it already ended in.
    pub(super) fn cancel(&self) -> Result<(), TaskStatus> {
        let ended = {
            let mut state = self.state();
            state.delivered = true;
            state.outcome.as_ref().map(Outcome::status)
        };
        if let Some(status) = ended {
            // Nobody asks for its outcome any more.
            self.changed.notify_waiters();
            return Err(status);
        }
        self.end(Outcome::Cancelled);
        Ok(())
    }

    /// The table let go of the task: whoever drives it stops, whoever waits for it learns.
    pub(super) fn let_go(&self) {
        self.state().gone = true;
        if let Some(driver) = self.driver.get() {
            driver.abort();
        }
        self.changed.notify_waiters();
    }

    pub(super) fn is_gone(&self) -> bool {
        self.state().gone
    }

    // === Questions ===

    /// Puts a question to the caller of the task; it stays open until it is answered or the guard is dropped.
    pub(super) fn open(self: &Arc<Self>, key: &str, ask: Ask) -> Open {
        let mut state = self.state();
        if state.outcome.is_none() && !state.answers.contains_key(key) {
            state
                .questions
                .entry(key.to_owned())
                .or_insert(Question { ask, asked_by: 0 })
                .asked_by += 1;
            state.updated = Timestamp::now();
        }
        Open { entry: Arc::clone(self), key: key.to_owned() }
    }

    pub(super) fn answer(&self, key: &str) -> Option<Payload> {
        self.state().answers.get(key).cloned()
    }

    /// Takes answers to open questions; answers to others are ignored, as MCP says.
    pub(super) fn take_answers<'a>(&self, answers: impl Iterator<Item = (&'a str, &'a Payload)>) {
        {
            let mut state = self.state();
            for (key, answer) in answers {
                if state.questions.remove(key).is_some() {
                    state.answers.insert(key.to_owned(), answer.clone());
                    state.updated = Timestamp::now();
                }
            }
        }
        self.changed.notify_waiters();
    }

    // === Callers that wait (2025-11-25) ===

    pub(super) fn wait(self: &Arc<Self>, cx: &Context) -> Waiting {
        self.state().waiting.push(cx.clone());
        self.changed.notify_waiters();
        Waiting { entry: Arc::clone(self), key: cx.key }
    }

    /// The surroundings of the latest caller that waits.
    pub(super) fn waiting(&self) -> Option<Context> {
        self.state().waiting.last().cloned()
    }

    // === In the words of MCP ===

    /// The reply of the call that became this task; a task begins as `working`, whatever became of it since.
    pub(super) fn created(&self) -> Result<Reply, RpcError> {
        match self.era {
            Era::Modern => {
                let mut result = CreateTaskResult::new(
                    self.id.clone(),
                    TaskStatus::Working,
                    self.created.clone(),
                    self.created.clone(),
                );
                result.status_message = Some(RUNS.to_owned());
                result.ttl_ms = Some(self.ttl_ms);
                result.poll_interval_ms = Some(self.poll_ms);
                match Reply::of(&result)? {
                    Reply::Complete(body) => Ok(Reply::Task(body)),
                    other => Ok(other),
                }
            }
            Era::Legacy => {
                let mut task = self.task(TaskStatus::Working, self.created.clone());
                task.status_message = Some(RUNS.to_owned());
                Reply::of(&LegacyCreateTaskResult::new(task))
            }
        }
    }

    /// The task as its caller sees it; the modern era joins questions and outcome to it.
    pub(super) fn describe(&self) -> Result<Reply, RpcError> {
        let mut state = self.state();
        self.deliver(&mut state);
        let task = self.snapshot(&state);
        let mut reply = Reply::of(&task)?;
        let (Era::Modern, Some(body)) = (self.era, reply.as_body_mut()) else { return Ok(reply) };
        match &state.outcome {
            Some(Outcome::Completed(result)) => body.insert("result", result.clone()),
            Some(Outcome::Failed(error)) => body.insert("error", Payload::of(error)?),
            Some(Outcome::Cancelled) => {}
            None if state.questions.is_empty() => {}
            None => body.insert("inputRequests", asked(&state.questions)?),
        }
        Ok(reply)
    }

    /// The task without what it ended in.
    pub(super) fn summary(&self) -> Task {
        self.snapshot(&self.state())
    }

    fn snapshot(&self, state: &State) -> Task {
        let (status, message) = match &state.outcome {
            Some(Outcome::Completed(_)) => {
                (TaskStatus::Completed, "the tool has answered".to_owned())
            }
            Some(Outcome::Failed(error)) => (TaskStatus::Failed, error.message().to_owned()),
            Some(Outcome::Cancelled) => {
                (TaskStatus::Cancelled, "cancelled by its caller".to_owned())
            }
            None if state.questions.is_empty() => (TaskStatus::Working, RUNS.to_owned()),
            None => {
                let keys: Vec<&str> = state.questions.keys().map(String::as_str).collect();
                (TaskStatus::InputRequired, format!("waits for answers: {}", keys.join(", ")))
            }
        };
        let mut task = self.task(status, state.updated.clone());
        task.status_message = Some(message);
        task
    }

    fn task(&self, status: TaskStatus, updated: Timestamp) -> Task {
        let mut task = Task::new(self.id.clone(), status, self.created.clone());
        task.last_updated_at = Some(updated);
        match self.era {
            Era::Modern => {
                task.result_type = Some(ResultType::Complete);
                task.ttl_ms = Maybe::Value(self.ttl_ms);
                task.poll_interval_ms = Some(self.poll_ms);
            }
            Era::Legacy => {
                task.ttl = Maybe::Value(self.ttl_ms);
                task.poll_interval = Some(self.poll_ms);
            }
        }
        task
    }

    /// Names the task in `_meta` (2025-11-25).
    pub(super) fn related(&self) -> (&'static str, Payload) {
        (key::RELATED_TASK, Payload::from_trusted(format!(r#"{{"taskId":"{}"}}"#, self.id)))
    }
}

const RUNS: &str = "the tool is running";

fn asked(questions: &BTreeMap<String, Question>) -> Result<Payload, RpcError> {
    #[derive(Serialize)]
    struct Asked<'a> {
        method: &'a str,
        params: &'a Payload,
    }
    let all: BTreeMap<&str, Asked<'_>> = questions
        .iter()
        .map(|(key, Question { ask, .. })| {
            (key.as_str(), Asked { method: ask.method(), params: ask.params() })
        })
        .collect();
    Payload::of(&all)
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The id is as good as a key, so it stays out of logs.
        f.debug_struct("Entry").field("number", &self.number).finish_non_exhaustive()
    }
}

/// Keeps a question open.
#[derive(Debug)]
pub(super) struct Open {
    entry: Arc<Entry>,
    key: String,
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut state = self.entry.state();
        let Some(question) = state.questions.get_mut(&self.key) else { return };
        question.asked_by -= 1;
        if question.asked_by == 0 {
            state.questions.remove(&self.key);
            state.updated = Timestamp::now();
        }
    }
}

/// Keeps a caller among those that wait.
#[derive(Debug)]
pub(super) struct Waiting {
    entry: Arc<Entry>,
    key: CallKey,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.entry.state().waiting.retain(|cx| cx.key != self.key);
    }
}
