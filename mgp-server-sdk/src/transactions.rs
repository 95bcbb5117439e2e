//! The layers for the idempotency keys and transactions of a server, and the calls that undo the steps of transactions.

use std::sync::Arc;

use mgp_lifecycle::{
    CompensationCall, Drain, Idempotency, IdempotencyLayer, TransactionLayer, TransactionTools,
    Transactions,
};
use mgp_types::method::ToolsCall;
use mgp_types::proposal::TransactionRecord;
use mgp_types::service::{
    AskCheck, BoxFuture, Call, Context, Reply, ServerId, Stack, WeakStack, around,
};
use mgp_types::{ErrorCode, RpcError};

use crate::error::BuildError;
use crate::stack::Gate;
use crate::tool::{Tools, WeakTools};

/// The idempotency keys and transactions of a server, which the author adds as extensions.
#[derive(Debug, Default)]
pub(crate) struct StepLayers {
    pub(crate) keys: Option<Idempotency>,
    pub(crate) transactions: Option<Transactions>,
}

impl StepLayers {
    pub(crate) fn error(&self) -> Option<BuildError> {
        let keeps_keys = self.keys.as_ref().is_some_and(|keys| !keys.is_in_memory());
        let lacks_keys = self.transactions.is_some() && !keeps_keys;
        lacks_keys.then_some(BuildError::TransactionsWithoutKeys)
    }

    /// Puts the layers for keys and transactions between the limits and the author's layers, and returns all of them,
    /// innermost first. The layer for transactions is around the layer for keys, so that it recognises a repeated step
    /// by its key.
    pub(crate) fn gates(
        &self,
        tools: &Tools,
        limits: impl Iterator<Item = Gate>,
        authors: Vec<Gate>,
    ) -> Vec<Gate> {
        let keys = self.keys.clone().map(|keys| {
            let (known, checked) = (tools.clone(), tools.clone());
            let layer = IdempotencyLayer::new(keys)
                .may_repeat(move |call| {
                    call.tool().is_some_and(|tool| known.is_repeatable(tool.name))
                })
                .recheck(move |call| {
                    // A replayed call gets its stored result and does not reach the tools, which would check the call;
                    // so check it here.
                    if let Some(tool) = call.tool().filter(|tool| checked.has(tool.name)) {
                        checked.check_callable(tool.name, call.cx())?;
                    }
                    checked.recheck(call)
                });
            Gate::new(layer)
        });
        let transactions = self.transactions.clone();
        let transactions = transactions.map(|all| Gate::new(TransactionLayer::new(all)));
        limits.chain(keys).chain(transactions).chain(authors).collect()
    }

    /// Returns a layer that stores in each tool call a check of its tool, key and transaction. Layers that ask a person
    /// about the call run this check before they ask. `tools` is `None` if no layer can ask about calls of these tools;
    /// `has_others` is `true` if a layer might answer calls of other tools.
    pub(crate) fn check(&self, tools: Option<Tools>, has_others: bool) -> Option<Gate> {
        let (keys, transactions) = (self.keys.clone(), self.transactions.clone());
        if tools.is_none() && keys.is_none() {
            return None;
        }
        let check = Arc::new(AskCheck::new(move |call| {
            tools.as_ref().map_or(Ok(()), |tools| tools.check_before_question(call, has_others))?;
            keys.as_ref().map_or(Ok(()), |keys| keys.check(call))?;
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
    pub(crate) tools: WeakTools,
    /// The author's layers and all services inside them.
    pub(crate) gates: WeakStack,
    /// The drain of the server. While it runs, the server undoes no further steps, but waits for a call that is already
    /// undoing one.
    pub(crate) drain: Drain,
}

impl OwnTools {
    fn tools(&self) -> Result<Tools, RpcError> {
        self.tools.upgrade().ok_or_else(|| RpcError::internal("the server stops"))
    }
}

impl TransactionTools for OwnTools {
    fn check(&self, cx: &Context, server: &ServerId, tool: &str) -> Result<(), RpcError> {
        if !server.as_str().is_empty() {
            let message = "this server undoes steps with its own tools only; omit `server_id`";
            return Err(RpcError::invalid_params(message));
        }
        let tools = self.tools()?;
        tools.check_callable(tool, cx)?;
        refuse_permissions(&tools, tool, cx)
    }

    fn only_reads(&self, _server: &ServerId, tool: &str) -> bool {
        self.tools().is_ok_and(|tools| tools.only_reads(tool))
    }

    fn compensate(&self, call: CompensationCall) -> BoxFuture<'static, Result<Reply, RpcError>> {
        let (gates, tools, drain) = (self.gates.upgrade(), self.tools(), self.drain.clone());
        let undo = async move {
            let gates = gates.ok_or_else(|| RpcError::internal("the server stops"))?;
            let tool = call.tool.clone();
            let (call, scope) = call.into_call()?;
            // Check this again: the tool may have been changed after the step, so that it needs a permission now.
            refuse_permissions(&tools?, &tool, call.cx())?;
            let answer = gates.send(call).await;
            scope.end();
            answer
        };
        Box::pin(async move { drain.include(undo).await })
    }

    fn has_ended(&self) -> bool {
        self.gates.is_dropped() || self.drain.is_draining()
    }

    fn report(&self, _tenant: &str, _transaction: &TransactionRecord) {
        // Do nothing else: the coordinator has logged a warning, and the author's program can find the transaction with
        // `Transactions::list`.
    }
}

/// Refuses a tool that needs a permission. The call that undoes a step contains no decisions of its caller about
/// permissions, so none is granted.
fn refuse_permissions(tools: &Tools, tool: &str, cx: &Context) -> Result<(), RpcError> {
    if !tools.needs_permission(tool, cx) {
        return Ok(());
    }
    let message =
        format!("`{tool}` cannot undo a step, because it needs a permission of its caller");
    Err(RpcError::new(ErrorCode::PERMISSION_DENIED, message))
}
