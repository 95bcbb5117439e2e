//! Rollbacks, which run the compensations of a transaction in the reverse order of its steps.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use mgp_types::mcp::CallToolResult;
use mgp_types::method::{Request as _, ToolsCall};
use mgp_types::mgp::ShutdownReason;
use mgp_types::proposal::{
    CallMembers, IdempotencyKey, IdempotencyTtl, StepStatus, TransactionStatus,
};
use mgp_types::service::{
    Call, Context, CredentialGrant, Method, Params, Peer, Principal, Reply, Scope, ScopeKind,
    ServerId,
};
use mgp_types::{Backoff, Object, Payload, RawObject, RpcError};

use super::log::SagaKey;
use super::saga::{Saga, TransactionCredentials, now_ms};
use super::{Coordinator, MAX_TEXT_BYTES, Transactions, is_stuck};
use crate::error::LifecycleError;
use crate::idempotency::CompensationKey;

/// The time that a rollback waits for steps that are still running.
const STEPS_TIMEOUT: Duration = Duration::from_mins(2);
/// The maximum number of attempts to undo a step whose server is not ready, and of attempts to store the end of a step.
pub(super) const MAX_ATTEMPTS: u32 = 4;
/// The waits between two attempts: half a second at first, five seconds at most.
pub(super) const BACKOFF: Backoff =
    Backoff::new(Duration::from_millis(500), Duration::from_secs(5));
/// The maximum wait between two attempts, even if the server's refusal names a longer wait.
const MAX_WAIT: Duration = Duration::from_mins(1);
/// The lifetime that is requested for the idempotency key of a compensation. It is long, because a rollback that a kill
/// interrupted may go on days later.
const KEY_TTL: Duration = Duration::from_hours(24 * 7);

/// The delay before the rollback of an inactive transaction is tried again if its beginning could not be stored.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// A call that undoes a step.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompensationCall {
    /// The caller who owns the transaction.
    pub principal: Principal,
    /// The rights of the credentials that limit the call; `None` if nothing limits it.
    pub grant: Option<CredentialGrant>,
    /// The server that has the tool; empty if the coordinator is this server.
    pub server: ServerId,
    /// The name of the tool that undoes the step.
    pub tool: String,
    /// The arguments of the call.
    pub arguments: RawObject,
    /// The members of the call, i.e. its idempotency key.
    pub members: CallMembers,
    /// The place where the layer for idempotency keys notes the key of the call.
    pub(crate) key: Arc<CompensationKey>,
}

impl CompensationCall {
    /// Converts this into a call for a stack of services. The scope must be ended after the call.
    ///
    /// # Errors
    /// Returns −32603 (internal error) if the params cannot be written.
    pub fn into_call(self) -> Result<(Call, Scope), RpcError> {
        let mut named = Object::new();
        named.encode("name", &self.tool)?;
        named.insert("arguments", self.arguments.into());
        if !self.server.as_str().is_empty() {
            let mut members = Object::new();
            members.encode("server_id", self.server.as_str())?;
            named.encode("_mgp", &members)?;
        }
        let params = Payload::of(&named)?;
        let params = Params::split(ToolsCall::METHOD, params.as_shared().clone())?;
        let scope = Scope::new(ScopeKind::Connection);
        let mut cx = Context::new(Peer::none(), scope.clone(), self.principal);
        cx.extensions.insert(self.members);
        cx.extensions.insert_shared(self.key);
        if let Some(grant) = self.grant {
            cx.extensions.insert(grant);
        }
        Ok((Call::request(Method::from_static(ToolsCall::METHOD), params, cx), scope))
    }
}

impl Transactions {
    pub(super) async fn begin_rollback(
        &self,
        key: &SagaKey,
        reason: Option<&str>,
        credentials: Option<TransactionCredentials>,
    ) -> Result<(), RpcError> {
        let reason = reason.map(|reason| mgp_types::clip(reason, MAX_TEXT_BYTES));
        let begin = move |saga: &mut Saga| match saga.status {
            TransactionStatus::Begun => {
                if let Some(current) = credentials {
                    saga.credentials = Some(current);
                }
                saga.status = TransactionStatus::RollingBack;
                saga.reason = reason;
                saga.active_ms = now_ms();
                Ok(true)
            }
            TransactionStatus::Committed => {
                Err(LifecycleError::TransactionEnded(saga.status.clone()))
            }
            _ => Ok(false),
        };
        self.change_and_roll_back(key, begin).await
    }

    /// Changes a transaction, and starts its rollback if the change returns `true`.
    ///
    /// The change and the rollback also happen if the future is dropped: otherwise the transaction could wait for a
    /// rollback that never runs.
    pub(super) async fn change_and_roll_back(
        &self,
        key: &SagaKey,
        change: impl FnOnce(&mut Saga) -> Result<bool, LifecycleError> + Send + 'static,
    ) -> Result<(), RpcError> {
        let (transactions, key) = (self.clone(), key.clone());
        let changing = tokio::spawn(async move {
            let (begins, _) = transactions.0.log.change(&key, change).await?;
            if begins {
                transactions.spawn_rollback(key);
            }
            Ok::<(), RpcError>(())
        });
        changing.await.map_err(|_| RpcError::internal("the rollback could not begin"))?
    }

    /// Starts the rollback of a transaction, unless it runs already.
    pub(super) fn spawn_rollback(&self, key: SagaKey) {
        if !self.0.rollbacks.lock().insert(key.clone()) {
            return;
        }
        let transactions = self.clone();
        let mut running = Some(RunningRollback { transactions: self.clone(), key: key.clone() });
        tokio::spawn(async move {
            loop {
                // Try again if the store is busy for a short time, which must not end a rollback.
                let mut backoff = BACKOFF;
                while let Err(error) = transactions.roll_back_steps(&key).await {
                    // If the tools have ended, the next start continues the rollback.
                    let has_ended = transactions.current_tools().is_none();
                    if has_ended || transactions.0.log.get(&key).is_none() {
                        return;
                    }
                    tracing::warn!(transaction = key.1, %error, "rollback interrupted; trying again");
                    tokio::time::sleep(backoff.next_delay()).await;
                }
                drop(running.take());
                // The rollback may have begun again before it was removed above, so check whether to continue.
                let is_begun = transactions.0.log.is_rolling_back(&key);
                let continues = is_begun && transactions.current_tools().is_some();
                if !continues || !transactions.0.rollbacks.lock().insert(key.clone()) {
                    return;
                }
                let (transactions, key) = (transactions.clone(), key.clone());
                running = Some(RunningRollback { transactions, key });
            }
        });
    }

    /// Waits until a transaction is not being rolled back any more.
    pub(super) async fn rolled_back(&self, key: &SagaKey) -> Result<Saga, RpcError> {
        let mut changed = self.0.log.subscribe();
        loop {
            changed.borrow_and_update();
            let saga = self.0.log.get(key).ok_or(LifecycleError::UnknownTransaction)?;
            if saga.status != TransactionStatus::RollingBack {
                return Ok(saga);
            }
            // A call that was undoing a step when the tools ended may still complete the rollback, so wait as long as
            // the rollback runs.
            if self.current_tools().is_none() && !self.0.rollbacks.lock().contains(key) {
                return Err(RpcError::internal(
                    "the server stops; its next start continues the rollback",
                ));
            }
            let closed = |_| RpcError::internal("the transactions were closed");
            changed.changed().await.map_err(closed)?;
        }
    }

    async fn roll_back_steps(&self, key: &SagaKey) -> Result<(), RpcError> {
        self.wait_for_steps(key).await;
        let mut saga = self.0.log.update(key, Saga::mark_interrupted).await?;
        while let Some(index) = saga.next_to_undo() {
            let used = Arc::<CompensationKey>::default();
            let outcome = self.undo(&saga, index, &used).await;
            if outcome.is_err() && self.current_tools().is_none() {
                // The step was perhaps not undone because its server ended; the next start tries it again.
                return Ok(());
            }
            let record = |saga: &mut Saga| {
                let Some(step) = saga.steps.get_mut(index) else { return };
                match &outcome {
                    Ok(()) => step.status = StepStatus::Compensated,
                    Err(error) => step.fail(error),
                }
            };
            saga = self.0.log.update(key, record).await?;
            used.remove();
        }
        let saga = self.0.log.update(key, Saga::finish_rollback).await?;
        if is_stuck(&saga) {
            tracing::warn!(
                transaction = saga.id,
                agent = saga.owner.name(),
                "transaction not rolled back completely; `mgp transactions` or `Transactions::list` shows what is left"
            );
            if let Some(tools) = self.current_tools() {
                tools.report(saga.owner.tenant(), &saga.record());
            }
        }
        Ok(())
    }

    /// Waits up to [`STEPS_TIMEOUT`] until no step of the transaction is running, because a running step could still
    /// have an effect after its compensation.
    async fn wait_for_steps(&self, key: &SagaKey) {
        let mut changed = self.0.log.subscribe();
        let ended =
            async { while self.0.log.is_running(key) && changed.changed().await.is_ok() {} };
        if tokio::time::timeout(STEPS_TIMEOUT, ended).await.is_err() {
            tracing::warn!(transaction = key.1, "steps still run; rolling back without their end");
        }
    }

    /// Undoes a step; returns the reason if that fails. The key of its calls is noted in `used`.
    async fn undo(
        &self,
        saga: &Saga,
        index: usize,
        used: &Arc<CompensationKey>,
    ) -> Result<(), String> {
        let step = &saga.steps[index];
        let Some(undo) = &step.undo else {
            return Err(step.error.clone().unwrap_or_else(|| "it has no compensation".to_owned()));
        };
        let mut members = CallMembers::default();
        let key = IdempotencyKey(step.undo_key(saga));
        let set = members.set(&key).and_then(|()| members.set(&IdempotencyTtl(KEY_TTL.as_secs())));
        set.map_err(|error| error.message().to_owned())?;
        let mut backoff = BACKOFF;
        for attempt in 1.. {
            // The wait for this attempt may have been long enough for the credentials to end, so check them again.
            let grant = self.valid_grant(saga.credentials.as_ref()).await?;
            let tools = self.current_tools().ok_or("the server stops")?;
            // Use a separate tokio task, because a panic in the call must not end the rollback.
            let answer = tokio::spawn(tools.compensate(CompensationCall {
                principal: saga.owner.principal(),
                grant,
                server: undo.server.as_str().into(),
                tool: undo.tool.clone(),
                arguments: undo.arguments.clone(),
                members: members.clone(),
                key: Arc::clone(used),
            }));
            let panicked = |_| RpcError::internal("the call panicked");
            match answer.await.map_err(panicked).flatten() {
                Ok(reply) => return check_result(&reply),
                // The idempotency key makes another attempt safe: the server runs it only if this attempt did not run.
                Err(_) if attempt < MAX_ATTEMPTS && tools.has_ended() => {}
                Err(error) if attempt < MAX_ATTEMPTS && is_passing(&error) => {
                    let named = error.as_recovery().and_then(|hints| hints.retry_after_ms);
                    let named = Duration::from_millis(named.unwrap_or_default()).min(MAX_WAIT);
                    self.wait_while_running(backoff.next_delay().max(named)).await;
                }
                Err(error) => return Err(error.message().to_owned()),
            }
        }
        Ok(())
    }
}

impl Transactions {
    /// Waits before the next attempt. Ends the wait if the tools end, because their server must not wait for another
    /// attempt.
    async fn wait_while_running(&self, mut wait: Duration) {
        while !wait.is_zero() && self.current_tools().is_some() {
            let part = wait.min(Duration::from_secs(1));
            tokio::time::sleep(part).await;
            wait -= part;
        }
    }

    /// Returns the rights of the caller that began a transaction. The caller's own session may have ended long ago, so
    /// the credentials are checked again.
    ///
    /// # Errors
    /// Returns the reason why the step waits for a person, if the caller's key was revoked, has expired, or cannot be
    /// checked.
    async fn valid_grant(
        &self,
        credentials: Option<&TransactionCredentials>,
    ) -> Result<Option<CredentialGrant>, String> {
        let Some(TransactionCredentials { key, permissions, grant }) = credentials else {
            return Ok(None);
        };
        if let Some(key) = key {
            let is_live = match (self.0.live_keys.get(), grant) {
                (Some(is_live), _) => tokio::spawn(is_live(key.clone())).await.unwrap_or(false),
                (None, Some(grant)) => grant.is_valid(),
                (None, None) => {
                    let unknown = "its caller's key cannot be checked; an operator may try again";
                    return Err(unknown.to_owned());
                }
            };
            if !is_live {
                return Err("the credentials of its caller have ended; an operator may try again"
                    .to_owned());
            }
        }
        Ok(Some(CredentialGrant::new(permissions.iter().cloned(), || true)))
    }
}

/// A guard that marks a rollback as running in this process until it is dropped.
struct RunningRollback {
    transactions: Transactions,
    key: SagaKey,
}

impl Drop for RunningRollback {
    fn drop(&mut self) {
        self.transactions.0.rollbacks.lock().remove(&self.key);
        // Wake the callers that wait for the rollback, because it may have paused.
        self.transactions.0.log.notify();
    }
}

fn is_passing(error: &RpcError) -> bool {
    error.as_recovery().is_some_and(mgp_types::Recovery::is_retryable)
}

/// Checks that a compensation was answered and that its tool did not fail.
fn check_result(reply: &Reply) -> Result<(), String> {
    if !matches!(reply, Reply::Complete(_)) {
        return Err(
            "its compensation asks its caller questions, which is not possible during a rollback"
                .to_owned(),
        );
    }
    let result: CallToolResult = reply.get().map_err(|error| error.message().to_owned())?;
    if result.is_error != Some(true) {
        return Ok(());
    }
    let texts: Vec<_> = result.content.iter().filter_map(|block| block.as_text()).collect();
    Err(format!("its compensation failed: {}", texts.join(" ")))
}

/// Rolls back transactions that were inactive for too long, until the coordinator is dropped.
pub(super) async fn roll_back_inactive(coordinator: Weak<Coordinator>) {
    loop {
        let Some(transactions) = coordinator.upgrade().map(Transactions) else { return };
        let mut changed = transactions.0.log.subscribe();
        let (due, mut next) = transactions.0.log.inactive();
        for key in due {
            if let Err(error) =
                transactions.begin_rollback(&key, Some("it was not used"), None).await
            {
                tracing::warn!(transaction = key.1, %error, "inactive transaction not rolled back");
                next = next.min(RETRY_INTERVAL);
            }
        }
        drop(transactions);
        tokio::select! {
            () = tokio::time::sleep(next.max(Duration::from_millis(100))) => {}
            open = changed.changed() => if open.is_err() { return },
        }
    }
}

impl Transactions {
    pub(super) fn tools(&self) -> Result<Arc<dyn super::TransactionTools>, RpcError> {
        if !self.0.runs.load(Ordering::Relaxed) {
            self.run_in_background();
        }
        let stopped = || {
            if self.0.tools.lock().is_empty() {
                return RpcError::internal("the coordinator of transactions is not started");
            }
            LifecycleError::Draining(ShutdownReason::OperatorRequest).into()
        };
        self.current_tools().ok_or_else(stopped)
    }
}
