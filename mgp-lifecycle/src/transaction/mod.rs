//! Transactions over tools of several servers, whose steps can be undone in reverse order (extension `transactions`).
//!
//! Every change is stored before it takes effect, so that a rollback continues after the process was killed. A
//! compensation, i.e. the call that undoes a step, is sent with an idempotency key. A step that could not be undone
//! waits for a person.

mod compensate;
mod endpoint;
mod layer;
mod log;
mod saga;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mgp_types::RpcError;
use mgp_types::proposal::{
    BeginTransactionParams, BeginTransactionResult, EndTransactionParams, EndTransactionResult,
    TransactionRecord, TransactionStatus,
};
use mgp_types::service::{BoxFuture, Context, Principal, Reply, ServerId, TenantId};
use mgp_types::store::{Store, StoreError};
use mgp_types::sync::Mutex;
use tokio::runtime::Handle;

pub use compensate::CompensationCall;
pub(crate) use layer::StepOf;
pub use layer::{StepTask, TransactionLayer, TransactionService};

use self::log::{SagaKey, SagaLog, check_ended};
use self::saga::{Owner, Saga, TransactionCredentials, now_ms};
use crate::error::LifecycleError;

/// The time after which an inactive transaction is rolled back if its caller does not set one.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(5);
/// The maximum time-out that a caller can set for a transaction.
const MAX_TIMEOUT: Duration = Duration::from_hours(24);
/// The maximum length of an id of a transaction or step.
const MAX_ID_BYTES: usize = 128;
/// The maximum length of the description or the reason of a transaction, in bytes.
const MAX_TEXT_BYTES: usize = 500;

/// The access to tools that the coordinator of transactions needs: it examines tools and calls them.
pub trait TransactionTools: Send + Sync + 'static {
    /// Checks that the caller is allowed to call the tool of a compensation.
    ///
    /// # Errors
    /// Returns an error if the caller is not allowed to call the tool.
    fn check(&self, cx: &Context, server: &ServerId, tool: &str) -> Result<(), RpcError>;

    /// Finds the server and the tool that a caller means by a name, if its compensation names no server. By default no
    /// tool is found, so that the name means a tool of the step's own server.
    fn find(&self, _cx: &Context, _name: &str) -> Option<(ServerId, String)> {
        None
    }

    /// Returns whether a tool only reads, so that a step without a compensation has nothing to undo.
    fn only_reads(&self, server: &ServerId, tool: &str) -> bool;

    /// Calls a compensation on behalf of the caller that owns its transaction, as if that caller called it.
    fn compensate(&self, call: CompensationCall) -> BoxFuture<'static, Result<Reply, RpcError>>;

    /// Returns whether these tools have ended, e.g. with their server. A rollback then pauses until the transactions are
    /// [started](Transactions::start) again, in this process or the next. Default: `false`.
    fn has_ended(&self) -> bool {
        false
    }

    /// Reports a transaction of a tenant that could not be rolled back completely, and therefore waits for a person.
    fn report(&self, tenant: &str, transaction: &TransactionRecord);
}

/// The transactions of all callers; a handle that is cheap to clone.
#[derive(Clone)]
pub struct Transactions(Arc<Coordinator>);

struct Coordinator {
    log: Arc<SagaLog>,
    /// The tools that were passed to `Transactions::start`, e.g. the tools of each connection of a server.
    tools: Mutex<Vec<Arc<dyn TransactionTools>>>,
    live_keys: OnceLock<Box<LiveKeys>>,
    rollbacks: Mutex<BTreeSet<SagaKey>>,
    /// `true` after the work in the background was started, which needs a runtime.
    runs: AtomicBool,
}

/// A function that returns whether the API key with this id is valid now.
type LiveKeys = dyn Fn(String) -> BoxFuture<'static, bool> + Send + Sync;

mgp_types::opaque_debug!(Transactions);

impl Transactions {
    /// Reads the transactions in a store. Only one process at a time may use the transactions of a store.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the store cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn open(store: Arc<dyn Store>) -> Result<Self, StoreError> {
        let log = Arc::new(SagaLog::open(store).await?);
        Ok(Self(Arc::new(Coordinator {
            log,
            tools: Mutex::default(),
            live_keys: OnceLock::new(),
            rollbacks: Mutex::default(),
            runs: AtomicBool::new(false),
        })))
    }

    /// Sets the function that returns whether the API key with an id is valid now. Without this function, only the
    /// process that received a key can check it. After a restart, the rollback of a transaction that a caller with a
    /// key began then waits for a person. Only the first call has an effect.
    #[must_use]
    pub fn live_keys(
        self,
        is_live: impl Fn(String) -> BoxFuture<'static, bool> + Send + Sync + 'static,
    ) -> Self {
        // Ignore the error: it means that a function is set already, and the first function stays.
        let _ = self.0.live_keys.set(Box::new(is_live));
        self
    }

    /// Continues interrupted rollbacks, and rolls back transactions that were inactive for too long; outside of a
    /// runtime, both begin with the next transaction. Can be called again with further tools for the same servers: the
    /// newest tools that have not ended are used.
    pub fn start(&self, tools: Arc<dyn TransactionTools>) {
        let mut all = self.0.tools.lock();
        all.retain(|earlier| !earlier.has_ended());
        all.push(tools);
        drop(all);
        self.run_in_background();
    }

    fn run_in_background(&self) {
        let Ok(runtime) = Handle::try_current() else { return };
        if self.current_tools().is_none() {
            return;
        }
        for key in self.0.log.rolling_back() {
            self.spawn_rollback(key);
        }
        if !self.0.runs.swap(true, Ordering::Relaxed) {
            runtime.spawn(compensate::roll_back_inactive(Arc::downgrade(&self.0)));
        }
    }

    /// Returns the newest tools that have not ended.
    fn current_tools(&self) -> Option<Arc<dyn TransactionTools>> {
        self.0.tools.lock().iter().rfind(|tools| !tools.has_ended()).cloned()
    }

    /// Begins a transaction for a caller.
    ///
    /// # Errors
    /// Returns −32602 (invalid params) if the id is malformed or was used before, 3001 (resource exhausted) if too many
    /// transactions are open, and otherwise the store's error.
    ///
    /// # Cancel safety
    /// If the future is dropped, the transaction may or may not begin.
    pub async fn begin(
        &self,
        caller: &Principal,
        params: BeginTransactionParams,
    ) -> Result<BeginTransactionResult, RpcError> {
        self.begin_with(caller, None, params).await
    }

    async fn begin_with(
        &self,
        caller: &Principal,
        credentials: Option<TransactionCredentials>,
        params: BeginTransactionParams,
    ) -> Result<BeginTransactionResult, RpcError> {
        if !self.0.runs.load(Ordering::Relaxed) {
            self.run_in_background();
        }
        let BeginTransactionParams { transaction_id, timeout_seconds, description, .. } = params;
        let id = match transaction_id {
            Some(id) => id,
            None => format!("tx-{}", mgp_types::random_name()?),
        };
        check_id("transaction_id", &id)?;
        let timeout = timeout_seconds.map_or(DEFAULT_TIMEOUT, Duration::from_secs);
        let now = now_ms();
        let saga = Saga {
            id: id.clone(),
            owner: Owner::of(caller),
            credentials,
            status: TransactionStatus::Begun,
            description: description.map(|text| mgp_types::clip(&text, MAX_TEXT_BYTES)),
            reason: None,
            note: None,
            began_ms: now,
            active_ms: now,
            timeout_ms: mgp_types::millis(timeout.min(MAX_TIMEOUT)),
            steps: Vec::new(),
        };
        self.0.log.insert(saga).await?;
        Ok(BeginTransactionResult::new(id, TransactionStatus::Begun))
    }

    /// Commits a transaction of a caller, so that its steps will not be undone.
    ///
    /// # Errors
    /// Returns −32602 (invalid params) if the caller has no open transaction with the id, or one of its steps has not
    /// ended.
    ///
    /// # Cancel safety
    /// If the future is dropped, the transaction may or may not be committed.
    pub async fn commit(
        &self,
        caller: &Principal,
        params: &EndTransactionParams,
    ) -> Result<EndTransactionResult, RpcError> {
        let key = (Owner::of(caller), params.transaction_id.clone());
        let commit = |saga: &mut Saga| {
            match saga.status {
                TransactionStatus::Committed => return Ok(()),
                TransactionStatus::Begun => check_ended(saga)?,
                _ => return Err(LifecycleError::TransactionEnded(saga.status.clone())),
            }
            saga.status = TransactionStatus::Committed;
            saga.active_ms = now_ms();
            // Remove the compensations, which are never called now: the log keeps the transaction for a day.
            saga.steps.iter_mut().for_each(|step| step.undo = None);
            Ok(())
        };
        self.0.log.change(&key, commit).await.map(|((), saga)| saga.result())
    }

    /// Undoes the steps of a transaction in reverse order, and waits until the rollback has ended.
    ///
    /// # Errors
    /// Returns −32602 (invalid params) if the caller has no transaction with the id, or it is committed, and −32603
    /// (internal error) if the tools end before the rollback.
    ///
    /// # Cancel safety
    /// If the future is dropped, the rollback continues.
    pub async fn roll_back(
        &self,
        caller: &Principal,
        params: &EndTransactionParams,
    ) -> Result<EndTransactionResult, RpcError> {
        self.roll_back_with(caller, None, params).await
    }

    async fn roll_back_with(
        &self,
        caller: &Principal,
        credentials: Option<TransactionCredentials>,
        params: &EndTransactionParams,
    ) -> Result<EndTransactionResult, RpcError> {
        let key = (Owner::of(caller), params.transaction_id.clone());
        self.begin_rollback(&key, params.reason.as_deref(), credentials).await?;
        self.rolled_back(&key).await.map(|saga| saga.result())
    }

    /// Returns the transactions of a tenant; transactions that wait for a person come first. Settled transactions are
    /// included only if `all` is `true`.
    #[must_use]
    pub fn list(&self, tenant: &str, all: bool) -> Vec<TransactionRecord> {
        let mut sagas = self.0.log.all();
        sagas.retain(|saga| saga.owner.tenant() == tenant && (all || !saga.is_settled()));
        sagas.sort_by_key(|saga| (!is_stuck(saga), saga.began_ms));
        sagas.iter().map(Saga::record).collect()
    }

    /// Tries again to undo the steps of a tenant's transaction that could not be undone, and waits until the rollback
    /// has ended.
    ///
    /// # Errors
    /// Returns −32602 (invalid params) unless exactly one transaction with the id waits for a person, and −32603
    /// (internal error) if the tools end before the rollback.
    ///
    /// # Cancel safety
    /// If the future is dropped, the rollback continues.
    pub async fn retry(
        &self,
        tenant: &str,
        id: &str,
        agent: Option<&str>,
    ) -> Result<TransactionRecord, RpcError> {
        let key = self.find_stuck(tenant, id, agent)?;
        let retry = |saga: &mut Saga| {
            // Another operator may have begun the same rollback just now, so check that it has not begun.
            let begins = is_stuck(saga);
            if begins {
                saga.retry();
            }
            Ok(begins)
        };
        self.change_and_roll_back(&key, retry).await?;
        self.rolled_back(&key).await.map(|saga| saga.record())
    }

    /// Records that a person has dealt with a transaction of a tenant.
    ///
    /// # Errors
    /// Returns −32602 (invalid params) unless exactly one transaction with the id waits for a person.
    ///
    /// # Cancel safety
    /// If the future is dropped, the change may or may not have been stored.
    pub async fn resolve(
        &self,
        tenant: &str,
        id: &str,
        agent: Option<&str>,
        note: Option<&str>,
    ) -> Result<TransactionRecord, RpcError> {
        let key = self.find_stuck(tenant, id, agent)?;
        let resolve = |saga: &mut Saga| {
            saga.status = TransactionStatus::Resolved;
            saga.note = note.map(|note| mgp_types::clip(note, MAX_TEXT_BYTES));
            saga.active_ms = now_ms();
            Ok(())
        };
        self.0.log.change(&key, resolve).await.map(|((), saga)| saga.record())
    }

    /// Returns the caller to whom each stored transaction belongs.
    #[must_use]
    pub fn callers(&self) -> Vec<Principal> {
        self.0.log.all().iter().map(|saga| saga.owner.principal()).collect()
    }

    /// Removes the transactions of a tenant that has left, so that a later tenant with this name does not see them.
    /// Open transactions, and those that wait for a person, are removed too, without undoing their steps.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the store cannot be written; nothing is removed then.
    ///
    /// # Cancel safety
    /// If the future is dropped, the transactions may stay in the store, and the next process that opens it reads them
    /// again.
    pub async fn remove_tenant(&self, tenant: &TenantId) -> Result<(), StoreError> {
        self.0.log.remove_tenant(tenant.as_str()).await
    }

    fn find_stuck(&self, tenant: &str, id: &str, agent: Option<&str>) -> Result<SagaKey, RpcError> {
        let all = self.0.log.all().into_iter();
        let mut found = all.filter(|saga| {
            saga.owner.tenant() == tenant
                && saga.id == id
                && is_stuck(saga)
                && agent.is_none_or(|agent| saga.owner.name() == agent)
        });
        match (found.next(), found.next()) {
            (Some(saga), None) => Ok((saga.owner, saga.id)),
            (None, _) => Err(RpcError::invalid_params(
                "no transaction with this id waits for a person; `mgp transactions ls` or `Transactions::list` lists those that do",
            )),
            (Some(_), Some(_)) => Err(RpcError::invalid_params(
                "several agents have a transaction with this id; name the agent",
            )),
        }
    }
}

fn is_stuck(saga: &Saga) -> bool {
    saga.status == TransactionStatus::PartiallyRolledBack
}

/// Checks that an id chosen by a caller has a valid form.
fn check_id(member: &str, id: &str) -> Result<(), RpcError> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-:.".contains(&byte);
    if id.is_empty() || id.len() > MAX_ID_BYTES || !id.bytes().all(is_allowed) {
        return Err(RpcError::invalid_params(format!(
            "`{member}` must be 1 to {MAX_ID_BYTES} letters, digits, `_`, `-`, `:` or `.`"
        )));
    }
    Ok(())
}
