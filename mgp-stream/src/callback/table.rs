//! The callbacks that wait for an answer, under ids that cannot be guessed (MGP §13.4).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use mgp_types::mgp::{CallbackRequestParams, CallbackStatus};
use mgp_types::service::{Context, Principal, ScopeId, ScopeKind};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, Payload, RpcError, random_name};
use tokio::sync::oneshot;

use super::answer::CallbackAnswer;
use crate::cancel::CancelSignal;

/// The maximum number of open callbacks per owner; further callbacks are refused with code 3001 (resource exhausted).
const MAX_OPEN: usize = 64;

/// The maximum number of answered callbacks that are remembered, so that a repeated answer is recognized. The oldest is
/// forgotten first.
const MAX_ANSWERED: usize = 1024;

/// The party that is allowed to answer a callback: the principal of the call that sent it, in the same connection or
/// session. A modern call over HTTP belongs to neither a connection nor a session, so any request of the principal can
/// answer its callbacks.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    /// The connection or session of the call; `None` for a modern call over HTTP, which belongs to neither.
    scope: Option<ScopeId>,
    principal: Principal,
}

impl Owner {
    pub(super) fn of(cx: &Context) -> Self {
        let lasts = matches!(cx.scope.kind(), ScopeKind::Connection | ScopeKind::Session);
        Self { scope: lasts.then(|| cx.scope.id()), principal: cx.principal.clone() }
    }

    fn is(&self, other: &Self) -> bool {
        self.scope == other.scope && self.principal == other.principal
    }
}

/// The open and the recently answered callbacks of a server; shared by all its connections.
#[derive(Clone, Default)]
pub(super) struct CallbackTable(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    open: HashMap<String, OpenCallback>,
    answered: VecDeque<(String, Owner)>,
}

struct OpenCallback {
    owner: Owner,
    question: CallbackRequestParams,
    answer: oneshot::Sender<CallbackAnswer>,
    /// The cancellation signal of the call that sent the callback; `None` if that call cannot be cancelled.
    call: Option<Arc<CancelSignal>>,
}

impl OpenCallback {
    /// Returns whether the call that sent the callback still waits for the answer. The callback of a cancelled call
    /// does not count as open, even if the future of the call was not dropped yet.
    fn is_open(&self) -> bool {
        !self.call.as_ref().is_some_and(|call| call.is_cancelled())
    }
}

impl CallbackTable {
    /// Adds a question to the open callbacks, and sets its `callback_id`.
    pub(super) fn open(
        &self,
        owner: Owner,
        call: Option<Arc<CancelSignal>>,
        question: &mut CallbackRequestParams,
    ) -> Result<WaitingCallback, RpcError> {
        question.callback_id = random_name()?;
        let (sender, answer) = oneshot::channel();
        let mut table = self.0.lock();
        let is_own = |open: &&OpenCallback| open.is_open() && open.owner.is(&owner);
        if table.open.values().filter(is_own).count() >= MAX_OPEN {
            let message =
                format!("{MAX_OPEN} questions of this session are open; answer some first");
            return Err(RpcError::new(ErrorCode::RESOURCE_EXHAUSTED, message).after_start());
        }
        let open = OpenCallback { owner, question: question.clone(), answer: sender, call };
        table.open.insert(question.callback_id.clone(), open);
        drop(table);
        Ok(WaitingCallback { table: self.clone(), id: question.callback_id.clone(), answer })
    }

    /// Passes an answer to the call that waits for it, and returns whether it was accepted. A callback of another owner
    /// counts as unknown.
    pub(super) fn answer(
        &self,
        by: &Owner,
        id: &str,
        response: &Payload,
    ) -> Result<CallbackStatus, RpcError> {
        let mut table = self.0.lock();
        if table.open.get(id).is_some_and(|open| !open.is_open()) {
            // The call that sent this callback was cancelled before the answer. Remove the callback, so that the call
            // stops waiting for the answer and the callback counts as unknown.
            table.open.remove(id);
        }
        if let Some(open) = table.open.get(id).filter(|open| open.owner.is(by)) {
            let answer = CallbackAnswer::read(&open.question, response)?;
            let Some(open) = table.open.remove(id) else { return Ok(CallbackStatus::Unknown) };
            if open.answer.send(answer).is_err() {
                return Ok(CallbackStatus::Unknown);
            }
            if table.answered.len() >= MAX_ANSWERED {
                table.answered.pop_front();
            }
            table.answered.push_back((id.to_owned(), open.owner));
            return Ok(CallbackStatus::Accepted);
        }
        let is_answered = table.answered.iter().any(|(other, owner)| other == id && owner.is(by));
        Ok(if is_answered { CallbackStatus::AlreadyProcessed } else { CallbackStatus::Unknown })
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().open.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().open.values().filter(|open| open.is_open()).count()
    }
}

mgp_types::opaque_debug!(CallbackTable);

/// An open callback. Dropping it withdraws the question, so that a later answer has no effect.
pub(super) struct WaitingCallback {
    table: CallbackTable,
    id: String,
    pub(super) answer: oneshot::Receiver<CallbackAnswer>,
}

impl WaitingCallback {
    /// Withdraws the question. Called when its time limit is reached. Returns the answer if an answer was accepted just
    /// before.
    pub(super) fn withdraw(&mut self) -> Option<CallbackAnswer> {
        self.table.0.lock().open.remove(&self.id);
        self.answer.try_recv().ok()
    }
}

impl Drop for WaitingCallback {
    fn drop(&mut self) {
        self.table.0.lock().open.remove(&self.id);
    }
}
