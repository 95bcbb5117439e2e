//! The state of idempotency keys and transactions, and the layers that apply them to the calls to a server.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use mgp_client_sdk::{ClientBuilder, gateway};
use mgp_discovery::Config;
use mgp_lifecycle::{
    Idempotency, IdempotencyLayer, RepeatPolicy, ToolRetryInfo, TransactionLayer, Transactions,
};
use mgp_security::Governance;
use mgp_types::RpcError;
use mgp_types::method::ToolsCall;
use mgp_types::mgp::Extension;
use mgp_types::proposal::CallMembers;
use mgp_types::service::{AskCheck, BoxFuture, Call, Reply, ServerId, Stack, TenantId};
use mgp_types::store::{Store, StoreError};
use tower_layer::{Layer as _, layer_fn};
use tower_service::Service;

/// A function that returns whether the API key with this id is valid now.
pub(crate) type LiveKeys = Box<dyn Fn(String) -> BoxFuture<'static, bool> + Send + Sync>;

/// The idempotency keys and transactions of a kernel. This handle is cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct CallProposals {
    keys: Option<Idempotency>,
    pub(crate) transactions: Option<Transactions>,
    /// `true` once the kernel has begun to stop. A rollback then pauses until the next start of the kernel, and no
    /// server starts.
    pub(crate) is_stopping: Arc<AtomicBool>,
    /// The check of a call's idempotency key and transaction that runs before a person is asked about the call; `None`
    /// if the configuration offers neither.
    ask_check: Option<Arc<AskCheck>>,
}

mgp_types::opaque_debug!(CallProposals { keys, transactions });

impl CallProposals {
    /// Opens the idempotency keys and transactions that the configuration offers, and reads their state from the store.
    pub(crate) async fn open(
        store: &Arc<dyn Store>,
        config: &Config,
        live_keys: Option<LiveKeys>,
    ) -> Result<Self, StoreError> {
        let offered = config.kernel.extensions;
        let mut opened = Self::default();
        if offered.contains(Extension::Transactions) {
            let transactions = Transactions::open(Arc::clone(store)).await?;
            opened.transactions = Some(match live_keys {
                Some(is_live) => transactions.live_keys(is_live),
                None => transactions,
            });
        }
        // Transactions need the idempotency keys too, because the calls that undo steps of a transaction carry such
        // keys.
        if offered.contains(Extension::Idempotency) || opened.transactions.is_some() {
            let keys = Idempotency::open(Arc::clone(store)).await?;
            opened.keys = Some(keys.clone());
            opened.ask_check = Some(Arc::new(ask_check(keys, opened.transactions.clone())));
        }
        Ok(opened)
    }

    /// Removes the transactions of a tenant, and its idempotency keys with the results of their calls.
    pub(crate) async fn forget_tenant(&self, tenant: &TenantId) -> Result<(), StoreError> {
        if let Some(transactions) = &self.transactions {
            transactions.remove_tenant(tenant).await?;
        }
        let Some(keys) = &self.keys else { return Ok(()) };
        keys.remove_tenant(tenant).await
    }

    /// Adds the check of idempotency keys and transactions to a tool call. The layers that ask a person about the call
    /// run the check first.
    pub(crate) fn add_check(&self, call: &mut Call) {
        if call.is::<ToolsCall>()
            && let Some(check) = &self.ask_check
        {
            call.cx_mut().extensions.insert_shared(Arc::clone(check));
        }
    }

    /// Adds the layers to the stack that sends calls to a server. Call this before the security layers are added:
    /// layers that are added later are outer ones, so a call passes the security checks first.
    pub(crate) fn layers(
        &self,
        builder: ClientBuilder,
        governance: &Governance,
        server: &ServerId,
    ) -> ClientBuilder {
        let keys = self.keys.clone().map(|keys| {
            IdempotencyLayer::new(keys)
                .may_repeat(may_repeat(governance, server))
                .recheck(governance.layer(server.clone()).recheck())
        });
        // Put the layer for transactions around the layer for idempotency keys, which recognizes a repeated step of a
        // transaction by its key.
        let transactions = self.transactions.clone().map(TransactionLayer::new);
        if keys.is_none() && transactions.is_none() {
            return builder;
        }
        builder.layer(layer_fn(move |inner: Stack| {
            // If a call runs as a task, it ends when the task ends. So give these layers the result of the task instead
            // of its id.
            let mut extended = gateway::await_tasks(inner.clone());
            if let Some(keys) = &keys {
                extended = Stack::new(keys.layer(extended));
            }
            if let Some(transactions) = &transactions {
                extended = Stack::new(transactions.layer(extended));
            }
            ForNegotiated { inner, extended }
        }))
    }
}

/// Returns the check that refuses a call if its idempotency key or its transaction does not allow it to run.
fn ask_check(keys: Idempotency, transactions: Option<Transactions>) -> AskCheck {
    AskCheck::new(move |call| {
        // The layers for keys and transactions ignore calls without members of extensions, so this check also ignores
        // them.
        if call.cx().extensions.get::<CallMembers>().is_none() {
            return Ok(());
        }
        keys.check(call)?;
        transactions.as_ref().map_or(Ok(()), |transactions| transactions.check(call))
    })
}

/// Returns a function that decides whether a call may run again, if the kernel does not know how the first run of the
/// call ended.
fn may_repeat(
    governance: &Governance,
    server: &ServerId,
) -> impl Fn(&Call) -> bool + Send + Sync + use<> {
    let (definitions, policies) = (governance.definitions().clone(), governance.policies().clone());
    let server = server.clone();
    move |call| {
        // Let the call run again at a server that negotiated idempotency keys, because such a server runs a call only
        // once per key.
        if call.cx().callee.mgp.unwrap_or_default().contains(Extension::Idempotency) {
            return true;
        }
        let Some(tool) = call.tool() else { return false };
        let Some(definition) = definitions.definition(Some(&server), tool.name) else {
            return false;
        };
        let risk = definitions.assessment(Some(&server), tool.name).effective_risk.clone();
        // For an untrusted server, ignore what its definitions claim about repeated calls.
        policies.get(Some(&server)).trust.rank() > 0
            && ToolRetryInfo::of(&definition, risk).repeat == RepeatPolicy::Always
    }
}

/// A service that passes a call through the layers for idempotency keys and transactions only if the caller negotiated
/// an extension.
#[derive(Clone)]
struct ForNegotiated {
    inner: Stack,
    extended: Stack,
}

impl Service<Call> for ForNegotiated {
    type Response = Reply;
    type Error = RpcError;
    type Future = BoxFuture<'static, Result<Reply, RpcError>>;

    mgp_types::always_ready!();

    fn call(&mut self, call: Call) -> Self::Future {
        let is_negotiated = call.cx().extensions.get::<CallMembers>().is_some();
        if is_negotiated { self.extended.send(call) } else { self.inner.send(call) }
    }
}
