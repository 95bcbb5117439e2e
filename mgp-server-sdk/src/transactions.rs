//! Transactions over the tools of one server (proposal 5): the server undoes the steps of a caller in reverse order.

use std::sync::Arc;

use mgp_lifecycle::{
    CompensationCall, Idempotency, IdempotencyLayer, TransactionLayer, TransactionTools,
    Transactions,
};
use mgp_types::method::ToolsCall;
use mgp_types::mgp::Extension;
use mgp_types::proposal::TransactionRecord;
use mgp_types::service::{
    AskCheck, BoxFuture, Call, Context, Reply, ServerId, Stack, WeakStack, around,
};
use mgp_types::{ErrorCode, RpcError};

use crate::error::BuildError;
use crate::extension::ServerExtension;
use crate::server::Server;
use crate::stack::Gate;
use crate::tool::Tools;

/// Makes the tool calls with a transaction id steps of that transaction, which the server undoes on request, after a
/// time without steps, or when it starts again after it was killed. It needs [`Idempotency`](crate::Idempotency) too,
/// so that no step is undone twice.
///
/// A step is undone by the tool that its result names, or that its caller gave with the call. That call passes the
/// author's layers like any other, e.g. those of [`Server::governed`]. It can neither ask the caller nor use a tool
/// that needs a permission. A transaction that could not be undone waits until the author's program calls
/// [`retry`](Transactions::retry) or [`resolve`](Transactions::resolve).
///
/// ```
/// use std::sync::Arc;
///
/// use mgp_server_sdk::prelude::*;
/// use mgp_server_sdk::types::proposal::Compensation;
/// use mgp_server_sdk::types::store::{MemoryStore, Store};
/// use mgp_server_sdk::{Idempotency, Transactions};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let create = Tool::new("create_ticket", "Creates a ticket", |cx: Context| async move {
///     cx.add_to_result(&Compensation::new("delete_ticket"))?;
///     Ok::<_, RpcError>("ticket 7")
/// });
/// let delete = Tool::new("delete_ticket", "Deletes the newest ticket", || async { "deleted" });
/// // A server whose transactions must outlast it uses a `SqliteStore`.
/// let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
/// let server = Server::new("tickets", "1.0")
///     .tool(create)
///     .tool(delete)
///     .extension(Idempotency::open(Arc::clone(&store)).await.unwrap())
///     .extension(Transactions::open(store).await.unwrap());
/// server.into_stack().unwrap();
/// # });
/// ```
impl ServerExtension for Transactions {
    fn extension(&self) -> Extension {
        Extension::Transactions
    }

    fn install(self, mut server: Server) -> Server {
        let router = self.router();
        server.steps.transactions = Some(self);
        server.endpoints(router)
    }
}

/// The idempotency keys and transactions of a server, which the author adds as extensions.
#[derive(Debug, Default)]
pub(crate) struct StepLayers {
    pub(crate) keys: Option<Idempotency>,
    pub(crate) transactions: Option<Transactions>,
}

impl StepLayers {
    pub(crate) fn error(&self) -> Option<BuildError> {
        let lacks_keys = self.transactions.is_some() && self.keys.is_none();
        lacks_keys.then_some(BuildError::TransactionsWithoutKeys)
    }

    /// Puts the layers for keys and transactions between the limits and the author's layers; innermost first. The layer
    /// for transactions is around the one for keys, so that it recognises a repeated step by its key.
    pub(crate) fn gates(
        &self,
        limits: impl Iterator<Item = Gate>,
        authors: Vec<Gate>,
    ) -> Vec<Gate> {
        let keys = self.keys.clone().map(|keys| Gate::new(IdempotencyLayer::new(keys)));
        let transactions = self.transactions.clone();
        let transactions = transactions.map(|all| Gate::new(TransactionLayer::new(all)));
        limits.chain(keys).chain(transactions).chain(authors).collect()
    }

    /// Returns a layer that adds to each tool call the check of its key and transaction. Layers that ask a person about
    /// the call run it first.
    pub(crate) fn check(&self) -> Option<Gate> {
        let (keys, transactions) = (self.keys.clone()?, self.transactions.clone());
        let check = Arc::new(AskCheck::new(move |call| {
            keys.check(call)?;
            transactions.as_ref().map_or(Ok(()), |transactions| transactions.check(call))
        }));
        Some(Gate::new(around(move |mut call: Call, next: Stack| {
            if call.is::<ToolsCall>() {
                call.cx_mut().extensions.insert_shared(Arc::clone(&check));
            }
            next.send(call)
        })))
    }
}

/// The tools of a server, with which its transactions are undone. Does not keep the server alive.
pub(crate) struct OwnTools {
    pub(crate) tools: Tools,
    /// The author's layers and all services inside them.
    pub(crate) gates: WeakStack,
}

impl TransactionTools for OwnTools {
    fn check(&self, cx: &Context, _server: &ServerId, tool: &str) -> Result<(), RpcError> {
        self.tools.check_callable(tool, cx)?;
        if self.tools.permissions_of(tool, cx).is_some() {
            let message =
                format!("`{tool}` cannot undo a step, because it needs a permission of its caller");
            return Err(RpcError::new(ErrorCode::PERMISSION_DENIED, message));
        }
        Ok(())
    }

    fn only_reads(&self, _server: &ServerId, tool: &str) -> bool {
        self.tools.only_reads(tool)
    }

    fn compensate(&self, call: CompensationCall) -> BoxFuture<'static, Result<Reply, RpcError>> {
        let gates = self.gates.upgrade();
        Box::pin(async move {
            let gates = gates.ok_or_else(|| RpcError::internal("the server stops"))?;
            let (call, scope) = call.into_call()?;
            let answer = gates.send(call).await;
            scope.end();
            answer
        })
    }

    fn report(&self, _tenant: &str, _transaction: &TransactionRecord) {
        // The coordinator has logged a warning, and the author's program reads `Transactions::list`.
    }
}
