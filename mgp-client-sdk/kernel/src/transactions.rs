//! Calls the tools that undo the steps of callers' transactions (extension `transactions`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use mgp_lifecycle::{CompensationCall, TransactionTools, Transactions};
use mgp_toolindex::IndexedTool;
use mgp_types::mgp::RiskLevel;
use mgp_types::proposal::TransactionRecord;
use mgp_types::service::{BoxFuture, Context, Reply, ServerId, Visibility as _};
use mgp_types::{ErrorCode, RpcError};

use crate::dispatch;
use crate::handle::{Kernel, KernelParts};

/// The [`TransactionTools`] of a kernel: calls tools of the kernel's servers to undo steps of transactions. It does not
/// keep the kernel alive.
struct CompensationCaller {
    kernel: Weak<KernelParts>,
    is_stopping: Arc<AtomicBool>,
}

impl Kernel {
    /// Continues the rollbacks of transactions that were interrupted by the end of an earlier kernel.
    pub(crate) fn start_transactions(&self) {
        let calls = &self.0.fleet.context().calls;
        if let Some(transactions) = &calls.transactions {
            let (kernel, is_stopping) = (Arc::downgrade(&self.0), Arc::clone(&calls.is_stopping));
            transactions.start(Arc::new(CompensationCaller { kernel, is_stopping }));
        }
    }

    /// Returns the handle of the kernel's transactions.
    ///
    /// # Errors
    /// −32601 (unknown method) if the configuration does not offer transactions.
    pub(crate) fn transactions(&self) -> Result<&Transactions, RpcError> {
        let off = "this kernel has no transactions; add `transactions` to `kernel.extensions`";
        let off = || RpcError::new(ErrorCode::METHOD_NOT_FOUND, off);
        self.0.fleet.context().calls.transactions.as_ref().ok_or_else(off)
    }
}

impl CompensationCaller {
    fn kernel(&self) -> Result<Arc<KernelParts>, RpcError> {
        self.kernel.upgrade().ok_or_else(|| RpcError::internal("the kernel stops"))
    }
}

impl TransactionTools for CompensationCaller {
    fn check(&self, cx: &Context, server: &ServerId, tool: &str) -> Result<(), RpcError> {
        let kernel = self.kernel()?;
        let is_known = kernel.fleet.context().index.get(server.as_str(), tool).is_some();
        let view = &kernel.dispatcher.parts().view;
        if is_known && view.sees(cx, Some(server), tool).is_ok() {
            return Ok(());
        }
        let message = format!("the compensation `{server}.{tool}` is not a tool that you can call");
        Err(RpcError::new(ErrorCode::TOOL_NOT_FOUND, message))
    }

    fn find(&self, cx: &Context, name: &str) -> Option<(ServerId, String)> {
        let tool: IndexedTool = self.kernel().ok()?.dispatcher.find_shown(cx, name)?;
        Some((tool.server_id().into(), tool.name().to_owned()))
    }

    fn only_reads(&self, server: &ServerId, tool: &str) -> bool {
        let Ok(kernel) = self.kernel() else { return false };
        let definitions = kernel.fleet.context().governance.definitions();
        let assessment = definitions.assessment(Some(server), tool);
        // A tool that an operator calls safe runs without a question, but it may change something.
        let found = assessment.overrides.as_ref().unwrap_or(&assessment.effective_risk);
        [found, &assessment.effective_risk].iter().all(|risk| **risk == RiskLevel::Safe)
    }

    fn compensate(&self, call: CompensationCall) -> BoxFuture<'static, Result<Reply, RpcError>> {
        let kernel = self.kernel();
        Box::pin(async move {
            let dispatcher = kernel?.dispatcher.clone();
            let server = call.server.clone();
            let (call, scope) = call.into_call()?;
            let answer = dispatch::call_tool(dispatcher.clone(), call).await;
            scope.end();
            answer.map_err(|error| {
                let is_unknown = error.code() == ErrorCode::TOOL_NOT_FOUND;
                if !is_unknown || dispatcher.parts().fleet.get(server.as_str()).is_some() {
                    return error;
                }
                error.with_message(format!(
                    "the server `{server}` was removed; add it again, then run `mgp transactions retry`"
                ))
            })
        })
    }

    fn has_ended(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed) || self.kernel.strong_count() == 0
    }

    fn report(&self, tenant: &str, transaction: &TransactionRecord) {
        if let Ok(kernel) = self.kernel() {
            kernel.fleet.context().events.transaction_stuck(tenant, transaction);
        }
    }
}
