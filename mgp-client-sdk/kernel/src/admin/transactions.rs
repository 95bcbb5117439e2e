//! Methods for transactions that wait for an operator (extension `transactions`).

use mgp_types::RpcError;
use mgp_types::method::{KernelTransactionsResolve, KernelTransactionsRetry, Request as _};
use mgp_types::proposal::{
    ListTransactionsParams, ListTransactionsResult, SettleTransactionParams, TransactionRecord,
};
use mgp_types::service::Context;

use super::methods::record;
use crate::handle::Kernel;

pub(super) async fn list(
    kernel: Kernel,
    cx: Context,
    params: ListTransactionsParams,
) -> Result<ListTransactionsResult, RpcError> {
    let id = params.transaction_id;
    let all = params.all.unwrap_or(id.is_some());
    let mut found = kernel.transactions()?.list(cx.principal.tenant().as_str(), all);
    found.retain(|one| id.as_ref().is_none_or(|id| one.transaction_id == *id));
    let mut result = ListTransactionsResult::new();
    result.transactions = found.into_iter().collect();
    Ok(result)
}

pub(super) async fn retry(
    kernel: Kernel,
    cx: Context,
    params: SettleTransactionParams,
) -> Result<TransactionRecord, RpcError> {
    let SettleTransactionParams { transaction_id, agent, .. } = params;
    record(&kernel, &cx, None, KernelTransactionsRetry::METHOD).await?;
    let tenant = cx.principal.tenant().as_str();
    kernel.transactions()?.retry(tenant, &transaction_id, agent.as_deref()).await
}

pub(super) async fn resolve(
    kernel: Kernel,
    cx: Context,
    params: SettleTransactionParams,
) -> Result<TransactionRecord, RpcError> {
    let SettleTransactionParams { transaction_id, agent, note, .. } = params;
    record(&kernel, &cx, None, KernelTransactionsResolve::METHOD).await?;
    let tenant = cx.principal.tenant().as_str();
    let (agent, note) = (agent.as_deref(), note.as_deref());
    kernel.transactions()?.resolve(tenant, &transaction_id, agent, note).await
}
