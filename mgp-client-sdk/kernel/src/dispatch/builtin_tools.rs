//! The tools of the kernel that are not methods: `mgp_read_more`, `mgp_tools_call_many`, and the tools for
//! transactions.

use mgp_lifecycle::Transactions;
use mgp_types::RpcError;
use mgp_types::method::{CALL_MANY, READ_MORE, find_kernel_tool};
use mgp_types::mgp::Extension;
use mgp_types::service::{BoxFuture, Call, Reply, Stack};

use super::{Dispatcher, batch};

/// The future of the reply to a call of a built-in tool.
pub(super) type Answer = BoxFuture<'static, Result<Reply, RpcError>>;

/// The tools of the kernel that are not methods.
pub(super) struct BuiltinTools {
    dispatcher: Dispatcher,
    transactions: Option<Transactions>,
    read_more: Stack,
}

impl BuiltinTools {
    pub(super) fn of(dispatcher: &Dispatcher) -> Self {
        let parts = dispatcher.parts();
        let context = parts.fleet.context();
        Self {
            dispatcher: dispatcher.clone(),
            transactions: context.calls.transactions.clone(),
            read_more: parts.results.reader(&context.governance),
        }
    }

    /// Answers a call of a built-in tool.
    ///
    /// # Errors
    /// Returns the call unchanged as the error if it does not call a built-in tool.
    pub(super) fn answer(&self, call: Call) -> Result<Answer, Call> {
        let Some(name) = call.tool().map(|tool| tool.name) else { return Err(call) };
        if let Some(transactions) = self.transactions_of(&call)
            && let Some(method) = Transactions::method_of_tool(name)
        {
            let transactions = transactions.clone();
            return Ok(Box::pin(async move { transactions.call_tool(method, call).await }));
        }
        match find_kernel_tool(name).map(|tool| tool.name) {
            Some(READ_MORE) => Ok(self.read_more.send(call)),
            Some(CALL_MANY) => Ok(Box::pin(batch::run(self.dispatcher.clone(), call))),
            _ => Err(call),
        }
    }

    /// Returns the handle of the transactions if the caller of a call negotiated transactions.
    fn transactions_of(&self, call: &Call) -> Option<&Transactions> {
        let negotiated = call.cx().caller.mgp?.contains(Extension::Transactions);
        self.transactions.as_ref().filter(|_| negotiated)
    }
}
