//! The methods for transactions, with their alternative names and the tools that correspond to them.

use std::future::Future;

use mgp_types::mcp::CallToolResult;
use mgp_types::method::{
    Request, TransactionBegin, TransactionCommit, TransactionRollback, TxBegin, TxCommit,
    TxRollback,
};
use mgp_types::proposal::{
    BeginTransactionParams, BeginTransactionResult, EndTransactionParams, EndTransactionResult,
};
use mgp_types::service::{Call, Context, Method, Params, Reply, Router};
use mgp_types::{ErrorCode, RpcError};

use super::Transactions;
use super::saga::TransactionCredentials;

/// The names of the tools for transactions, each with the method that it calls.
const TOOLS: [(&str, &str); 3] = [
    ("begin_transaction", TransactionBegin::METHOD),
    ("commit_transaction", TransactionCommit::METHOD),
    ("rollback_transaction", TransactionRollback::METHOD),
];

impl Transactions {
    /// Returns the router for `transaction/begin`, `transaction/commit` and `transaction/rollback`, also under
    /// `mgp/tx/…`.
    #[must_use]
    pub fn router(&self) -> Router {
        Router::new()
            .on::<TransactionBegin, _, _>(handler(self, begin))
            .on::<TxBegin, _, _>(handler(self, begin))
            .on::<TransactionCommit, _, _>(handler(self, commit))
            .on::<TxCommit, _, _>(handler(self, commit))
            .on::<TransactionRollback, _, _>(handler(self, roll_back))
            .on::<TxRollback, _, _>(handler(self, roll_back))
    }

    /// Returns the method that a tool calls; the tools are `begin_transaction`, `commit_transaction` and
    /// `rollback_transaction`.
    #[must_use]
    pub fn method_of_tool(name: &str) -> Option<&'static str> {
        TOOLS.iter().find(|(tool, _)| *tool == name).map(|(_, method)| *method)
    }

    /// Calls a method with the arguments of a tool call, and returns its result as the result of a tool.
    ///
    /// # Errors
    /// Returns the error of the method.
    ///
    /// # Cancel safety
    /// Dropping the future has the same effect as dropping the call of the method.
    pub async fn call_tool(&self, method: &'static str, call: Call) -> Result<Reply, RpcError> {
        let params = Params::split(method, call.tool_arguments().as_shared().clone())?;
        let call = Call::request(Method::from_static(method), params, call.cx().clone());
        let router = self.router();
        let unknown = || RpcError::new(ErrorCode::TOOL_NOT_FOUND, "unknown tool");
        let reply = router.get(method).ok_or_else(unknown)?.send(call).await?;
        let Some(body) = reply.as_body() else { return Ok(reply) };
        let mut result = CallToolResult::text(body.as_raw().as_str());
        result.structured_content = Some(body.as_raw().clone());
        Reply::of(&result)
    }
}

/// Turns a function into a handler that passes the transactions, the context and the params to it.
fn handler<P, R, Fut>(
    transactions: &Transactions,
    run: impl Fn(Transactions, Context, P) -> Fut + Send + Sync + 'static,
) -> impl Fn(Context, P) -> Fut + Send + Sync + 'static
where
    Fut: Future<Output = Result<R, RpcError>>,
{
    let transactions = transactions.clone();
    move |cx, params| run(transactions.clone(), cx, params)
}

async fn begin(
    transactions: Transactions,
    cx: Context,
    params: BeginTransactionParams,
) -> Result<BeginTransactionResult, RpcError> {
    transactions.begin_with(&cx.principal, TransactionCredentials::of(&cx), params).await
}

async fn commit(
    transactions: Transactions,
    cx: Context,
    params: EndTransactionParams,
) -> Result<EndTransactionResult, RpcError> {
    transactions.commit(&cx.principal, &params).await
}

async fn roll_back(
    transactions: Transactions,
    cx: Context,
    params: EndTransactionParams,
) -> Result<EndTransactionResult, RpcError> {
    let credentials = TransactionCredentials::of(&cx);
    transactions.roll_back_with(&cx.principal, credentials, &params).await
}
