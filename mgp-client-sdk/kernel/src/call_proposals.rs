//! The state of idempotency keys and transactions (proposal 5), and their layers around the calls to a server.

use std::sync::Arc;

use mgp_client_sdk::ClientBuilder;
use mgp_discovery::Config;
use mgp_lifecycle::{
    Idempotency, IdempotencyLayer, RepeatPolicy, ToolRetryInfo, TransactionLayer, Transactions,
};
use mgp_security::Governance;
use mgp_types::RpcError;
use mgp_types::mgp::Extension;
use mgp_types::proposal::CallMembers;
use mgp_types::service::{BoxFuture, Call, Reply, ServerId, Stack};
use mgp_types::store::{Store, StoreError};
use tower_layer::{Layer as _, layer_fn};
use tower_service::Service;

/// Returns whether the API key with an id is valid now.
pub(crate) type LiveKeys = Arc<dyn Fn(String) -> BoxFuture<'static, bool> + Send + Sync>;

/// The keys and transactions of a kernel. This handle is cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct CallProposals {
    keys: Option<Idempotency>,
    pub(crate) transactions: Option<Transactions>,
    pub(crate) live_keys: Option<LiveKeys>,
}

mgp_types::opaque_debug!(CallProposals { keys, transactions });

impl CallProposals {
    /// Opens the proposals that the configuration offers, with the state that the store has of them.
    pub(crate) async fn open(
        store: &Arc<dyn Store>,
        config: &Config,
        live_keys: Option<LiveKeys>,
    ) -> Result<Self, StoreError> {
        let offered = config.kernel.extensions;
        let mut opened = Self { live_keys, ..Self::default() };
        if offered.contains(Extension::Transactions) {
            opened.transactions = Some(Transactions::open(Arc::clone(store)).await?);
        }
        // Compensations have keys, too.
        if offered.contains(Extension::Idempotency) || opened.transactions.is_some() {
            opened.keys = Some(Idempotency::open(Arc::clone(store)).await?);
        }
        Ok(opened)
    }

    /// Adds the layers to the stack of calls to a server; call this before the gates are added, so that the gates are
    /// outside of these layers.
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
        // This layer is outside the one for keys, so that a repeated step is recognized by its key.
        let transactions = self.transactions.clone().map(TransactionLayer::new);
        if keys.is_none() && transactions.is_none() {
            return builder;
        }
        builder.layer(layer_fn(move |inner: Stack| {
            let mut extended = inner.clone();
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

/// Returns the function that decides whether a call may run again if the end of its first run is unknown.
fn may_repeat(
    governance: &Governance,
    server: &ServerId,
) -> impl Fn(&Call) -> bool + Send + Sync + use<> {
    let (definitions, policies) = (governance.definitions().clone(), governance.policies().clone());
    let server = server.clone();
    move |call| {
        // The server itself ensures that a key runs only once.
        if call.cx().callee.mgp.unwrap_or_default().contains(Extension::Idempotency) {
            return true;
        }
        let Some(tool) = call.tool() else { return false };
        let Some(definition) = definitions.definition(Some(&server), tool.name) else {
            return false;
        };
        let risk = definitions.assessment(Some(&server), tool.name).effective_risk.clone();
        // The claims of an untrusted server are ignored.
        policies.get(Some(&server)).trust.rank() > 0
            && ToolRetryInfo::of(&definition, risk).repeat == RepeatPolicy::Always
    }
}

/// Passes calls to the layers of keys and transactions only if their callers negotiated a proposal.
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
