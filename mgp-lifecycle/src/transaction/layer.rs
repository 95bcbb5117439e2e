//! The layer that records tool calls as steps of transactions.
//!
//! Applies to: inbound and outbound.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mgp_types::proposal::{
    CallMembers, Compensation, IdempotencyKey, Member as _, StepId, StepStatus, TransactionId,
};
use mgp_types::service::{
    BoxFuture, Call, CallRecord, Context, Either, MgpService, Reply, RetryAttempt, ServerId,
    is_tool_error,
};
use mgp_types::{ErrorCode, Object, Payload, RpcError};
use tower_service::Service;

use super::compensate::{BACKOFF, MAX_ATTEMPTS};
use super::log::SagaKey;
use super::saga::{Owner, Saga, Step, Undo, now_ms};
use super::{MAX_TEXT_BYTES, Transactions, check_id};
use crate::error::LifecycleError;
use crate::idempotency::{ignore_gone_caller, key_of};
use crate::retry::Failure;

const MAX_STEPS: usize = 100;
/// The maximum length of the name of a step's tool, in bytes.
const MAX_TOOL_BYTES: usize = 256;
/// The maximum size of a compensation, in bytes.
const MAX_UNDO_BYTES: usize = 64 << 10;
/// The maximum size of all compensations of a transaction, in bytes; beyond it, no more steps can be added to the
/// transaction.
const MAX_SAGA_BYTES: usize = 1 << 20;

/// Layer that adds each tool call with a transaction id to that transaction as a step.
///
/// Place it inside all gates (layers that can refuse calls), so that a refused call is not a step, and outside an
/// [`IdempotencyLayer`](crate::IdempotencyLayer).
#[derive(Clone, Debug)]
#[must_use]
pub struct TransactionLayer(Transactions);

impl TransactionLayer {
    /// Creates a layer that records its steps in `transactions`.
    pub const fn new(transactions: Transactions) -> Self {
        Self(transactions)
    }
}

mgp_types::layer_service! {
    /// The service that [`TransactionLayer`] creates.
    pub TransactionService for TransactionLayer
}

impl<S: MgpService> Service<Call> for TransactionService<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<S::Future, BoxFuture<'static, Result<Reply, RpcError>>>;

    mgp_types::always_ready!();

    fn call(&mut self, mut call: Call) -> Self::Future {
        let read = StepCall::read(&self.layer.0, &call).and_then(|step| {
            if let Some(step) = &step {
                step.prepare(&mut call)?;
            }
            Ok(step)
        });
        match read {
            Ok(None) => Either::Left { future: self.inner.call(call) },
            Ok(Some(step)) => {
                let run = run_step(self.layer.0.clone(), self.inner.clone(), call, step);
                Either::Right { future: Box::pin(run) }
            }
            Err(refused) => Either::Right { future: Box::pin(std::future::ready(Err(refused))) },
        }
    }
}

impl Transactions {
    /// Checks whether a tool call could begin as a step of its transaction, if it has one; changes nothing.
    ///
    /// A stack can use this function to refuse a call before a person is asked about it; [`TransactionLayer`] checks
    /// the step again before the call runs.
    ///
    /// # Errors
    /// Returns the error with which [`TransactionLayer`] would refuse the call now.
    pub fn check(&self, call: &Call) -> Result<(), RpcError> {
        let Some(step) = StepCall::read(self, call)? else { return Ok(()) };
        let saga = self.0.log.get(&step.saga);
        // `begin` changes only a copy of the transaction, which is dropped here, so nothing is stored.
        step.begin(&mut saga.ok_or(LifecycleError::UnknownTransaction)?)?;
        Ok(())
    }
}

/// The mark of a step whose call became a task of its server: the step may have had an effect, even if it ends with
/// questions to its caller.
#[derive(Clone, Debug, Default)]
pub struct StepTask(Arc<AtomicBool>);

impl StepTask {
    /// Returns the mark of a call; `None` if the call belongs to no transaction.
    #[must_use]
    pub fn of(cx: &Context) -> Option<&Self> {
        cx.extensions.get()
    }

    /// Marks the step. Code that waits for the task of a call inside [`TransactionLayer`] must use this function.
    pub fn mark(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_marked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The transaction of which a call is a step: its id and the time when it began, because an id can be used again.
#[derive(Clone, Debug)]
pub(crate) struct StepOf(pub(crate) String);

struct StepCall {
    saga: SagaKey,
    id: Option<String>,
    /// The id that all rounds (requests) and retries of one logical call share; `None` if the call has none yet.
    logical: Option<String>,
    /// The id that all rounds and all attempts of the call share.
    called_in: String,
    /// `true` if the call repeats an attempt that failed.
    is_retry: bool,
    server: ServerId,
    tool: String,
    undo: Option<Undo>,
    only_reads: bool,
    /// `true` if the call has an idempotency key, so that a repetition of it does not run again.
    is_keyed: bool,
}

impl StepCall {
    fn read(transactions: &Transactions, call: &Call) -> Result<Option<Self>, RpcError> {
        let cx = call.cx();
        let Some(TransactionId(saga)) = cx.member()? else { return Ok(None) };
        let Some(tool) = call.tool().map(|tool| tool.name.to_owned()) else { return Ok(None) };
        if tool.len() > MAX_TOOL_BYTES {
            // Refuse a name that is too long, because the log would keep the name even if the tool is unknown.
            return Err(RpcError::new(ErrorCode::TOOL_NOT_FOUND, "unknown tool"));
        }
        let tools = transactions.tools()?;
        let server = cx.server.clone().unwrap_or_else(|| "".into());
        let key = key_of(cx)?;
        let is_keyed = key.is_some();
        // A call that is repeated with its idempotency key is the same step.
        let id = match (cx.member()?, key) {
            (Some(StepId(id)), _) => {
                check_id("step_id", &id)?;
                Some(id)
            }
            (None, key) => key.map(|IdempotencyKey(key)| key),
        };
        let undo = cx.member::<Compensation>()?.map(|mut given| {
            // The caller uses its own name for the tool, so find the tool's server and its name on that server.
            if given.server_id.is_none()
                && let Some((server, tool)) = tools.find(cx, &given.tool)
            {
                (given.server_id, given.tool) = (Some(server.to_string()), tool);
            }
            Undo::new(given, server.as_str())
        });
        if let Some(undo) = &undo {
            check_size(undo)?;
            tools.check(cx, &undo.server.as_str().into(), &undo.tool)?;
        }
        let only_reads = tools.only_reads(&server, &tool);
        let saga = (Owner::of(&cx.principal), saga);
        let logical = cx.logical.as_deref().map(str::to_owned);
        // A retry has the key of the first attempt as its logical id.
        let called_in = logical.clone().unwrap_or_else(|| cx.key.to_text().to_string());
        let is_retry = cx.extensions.get::<RetryAttempt>().is_some();
        Ok(Some(Self {
            saga,
            id,
            logical,
            called_in,
            is_retry,
            server,
            tool,
            undo,
            only_reads,
            is_keyed,
        }))
    }

    /// Records the transaction of the call. Removes the members for transactions from the call, because the called
    /// server must not coordinate the transaction as well.
    fn prepare(&self, call: &mut Call) -> Result<(), RpcError> {
        let extensions = &mut call.cx_mut().extensions;
        if let Some(record) = extensions.get::<CallRecord>() {
            record.add_note(TransactionId::NAME, Payload::of(&self.saga.1)?);
        }
        let members = extensions.get::<CallMembers>().cloned().unwrap_or_default();
        let members = members.without::<TransactionId>().without::<StepId>();
        extensions.insert(members.without::<Compensation>());
        Ok(())
    }

    /// Adds the step to its transaction, unless the call repeats a step that has not failed. Returns the id of the
    /// step, and `true` if it was added.
    fn begin(self, saga: &mut Saga) -> Result<(String, bool), LifecycleError> {
        if !saga.is_open() {
            return Err(LifecycleError::TransactionEnded(saga.status.clone()));
        }
        saga.active_ms = now_ms();
        let server = self.server.as_str();
        let is_same = |step: &Step| step.tool == self.tool && step.server == server;
        // Two kinds of calls continue a step: a call that returns with the answer to a question of the step's task, and
        // a retry of an attempt that may have run. Such a retry is made only if a second run does no harm.
        let continues = |step: &Step| {
            step.has_asked_in(self.logical.as_deref())
                || self.is_retry && step.was_called_in(&self.called_in)
        };
        let continued = saga.steps.iter().rfind(|step| is_same(step) && continues(step));
        let continued = continued.map(|step| step.id.clone());
        let id = self.id.or(continued).unwrap_or_else(|| saga.unused_step_id());
        let mut is_continued = false;
        if let Some(index) = saga.steps.iter().position(|step| step.id == id) {
            let step = &saga.steps[index];
            is_continued = continues(step);
            let runs_again = step.status == StepStatus::Failed || is_continued;
            if !is_same(step) || !self.is_keyed && !runs_again {
                return Err(LifecycleError::StepExists(id));
            }
            if !runs_again {
                return Ok((id, false));
            }
            // Remove the step, which is added again below: it now runs after all other steps, and with the compensation
            // of this call.
            saga.steps.remove(index);
        } else if saga.steps.len() >= MAX_STEPS {
            return Err(LifecycleError::TooManySteps(MAX_STEPS));
        }
        // Do not refuse the continuation of a step: the step would not end, and the transaction could not be committed.
        if !is_continued && saga.undo_bytes() > MAX_SAGA_BYTES {
            return Err(LifecycleError::TooMuchToUndo(MAX_SAGA_BYTES));
        }
        saga.steps.push(Step {
            id: id.clone(),
            server: server.to_owned(),
            tool: self.tool,
            status: StepStatus::Started,
            undo: self.undo,
            error: None,
            only_reads: self.only_reads,
            attempts: 0,
            asked_in: None,
            called_in: Some(self.called_in),
        });
        Ok((id, true))
    }
}

fn check_size(undo: &Undo) -> Result<(), RpcError> {
    if undo.bytes() > MAX_UNDO_BYTES {
        return Err(RpcError::invalid_params(format!(
            "a compensation may have {MAX_UNDO_BYTES} bytes, with its arguments and its description"
        )));
    }
    Ok(())
}

/// Runs a step. The step continues even if its caller disconnects, so that its outcome becomes known.
async fn run_step<S: MgpService>(
    transactions: Transactions,
    mut inner: S,
    mut call: Call,
    step: StepCall,
) -> Result<Reply, RpcError> {
    let (saga, server) = (step.saga.clone(), step.server.clone());
    let running = transactions.0.log.step_begins(&saga);
    call.cx_mut().extensions.insert(StepTask::default());
    let _caller = ignore_gone_caller(&mut call);
    let (cx, step_cx) = (call.cx().clone(), call.cx().clone());
    let task = async move {
        // Do this in this tokio task, because a caller that disconnects now must not leave a step that has begun but
        // never runs.
        let log = &transactions.0.log;
        let ((id, is_new), begun) = log.change(&saga, |saga| step.begin(saga)).await?;
        let of = StepOf(format!("{}\n{}", begun.id, begun.began_ms));
        call.cx_mut().extensions.insert(of);
        // A question to the caller ends the step; the next round of the call begins it again.
        let asking = step_cx.caller_access.clone();
        let answer = asking.run_round(inner.call(call)).await;
        let ended = end_step(&transactions, &saga, (&id, is_new), &server, &step_cx, &answer);
        if let Err(error) = ended.await {
            tracing::warn!(transaction = saga.1, step = id, %error, "end of a step not stored");
        }
        drop(running);
        if answer.is_ok() {
            step_cx.add_to_result(&TransactionId(saga.1))?;
            step_cx.add_to_result(&StepId(id))?;
        }
        answer
    };
    crate::idempotency::run_on(&cx, task).await
}

/// Records the end of a step, with the compensation that its server declared.
async fn end_step(
    transactions: &Transactions,
    saga: &SagaKey,
    (id, is_new): (&str, bool),
    server: &ServerId,
    cx: &Context,
    answer: &Result<Reply, RpcError>,
) -> Result<(), RpcError> {
    // `true` if the wait for a task ended with a question to the caller. The task is then cancelled, but may have had
    // effects.
    let has_asked = matches!(answer, Ok(Reply::InputRequired(_)))
        && StepTask::of(cx).is_some_and(StepTask::is_marked);
    let status = match answer {
        Ok(Reply::Complete(_)) if !is_failed(answer) => StepStatus::Done,
        _ if !has_asked && had_no_effect(answer) => StepStatus::Failed,
        _ => StepStatus::Started,
    };
    let asked_in = cx.logical.as_deref().filter(|_| has_asked).map(str::to_owned);
    let declared = declared(answer).or_else(|| cx.added_to_result());
    let declared = declared.map(|declared| usable(transactions, cx, server, declared));
    let end = |saga: &mut Saga| -> Result<(), LifecycleError> {
        saga.active_ms = now_ms();
        let Some(step) = saga.step(id) else { return Ok(()) };
        // A replayed result does not change a step that has already ended. A failed repetition does not change a step
        // whose first call may still run.
        if step.status == StepStatus::Started && (is_new || status == StepStatus::Done) {
            step.status = status.clone();
            step.asked_in.clone_from(&asked_in);
        }
        match &declared {
            Some(Ok(undo)) => step.undo = Some(undo.clone()),
            Some(Err(why)) if step.undo.is_none() => step.error = Some(why.clone()),
            _ => {}
        }
        Ok(())
    };
    // Only this call knows how the step ended, so it tries again if the store is busy for a moment.
    let mut backoff = BACKOFF;
    for _ in 1..MAX_ATTEMPTS {
        if transactions.0.log.change(saga, &end).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(backoff.next_delay()).await;
    }
    transactions.0.log.change(saga, &end).await.map(drop)
}

/// Returns whether a call failed, or its result reports a failure.
fn is_failed(answer: &Result<Reply, RpcError>) -> bool {
    let Ok(reply) = answer else { return true };
    reply.as_body().is_some_and(is_tool_error)
}

/// Returns whether a failed step had no effect, because the call did not run or its tool reported a failure.
fn had_no_effect(answer: &Result<Reply, RpcError>) -> bool {
    match answer {
        Ok(Reply::Complete(_) | Reply::InputRequired(_)) => true,
        // The call became a task, which can still be running, so it may have an effect.
        Ok(_) => false,
        Err(_) => Failure::of(answer).is_none_or(|failure| !failure.may_have_run()),
    }
}

fn declared(answer: &Result<Reply, RpcError>) -> Option<Compensation> {
    let body = answer.as_ref().ok()?.as_body()?;
    let in_meta = body.get("_meta").and_then(|meta| meta.get::<Object>().ok());
    let found = in_meta.and_then(|meta| meta.get(Compensation::NAME).cloned());
    // Other implementations write the compensation next to the content and not into `_meta`, so look there, too.
    found.or_else(|| body.get(Compensation::NAME))?.get().ok()
}

/// Checks a compensation that a server declared. Only a tool of the same server is accepted, and the caller must be
/// allowed to call that tool.
fn usable(
    transactions: &Transactions,
    cx: &Context,
    server: &ServerId,
    mut declared: Compensation,
) -> Result<Undo, String> {
    declared.server_id = None;
    let undo = Undo::new(declared, server.as_str());
    // If the tools are not available, e.g. because the connection of the caller has ended, this check is made later,
    // when the call that undoes the step is made.
    let may_call = || match transactions.current_tools() {
        Some(tools) => tools.check(cx, server, &undo.tool),
        None => Ok(()),
    };
    let checked = check_size(&undo).and_then(|()| may_call());
    match checked {
        Ok(()) => Ok(undo),
        Err(error) => {
            let why = format!("its compensation `{}`: {}", undo.tool, error.message());
            Err(mgp_types::clip(&why, MAX_TEXT_BYTES))
        }
    }
}
