//! Calls the tools that undo the steps of callers' transactions (proposal 5).

use std::sync::{Arc, Weak};

use mgp_lifecycle::{CompensationCall, TransactionCredentials, TransactionTools, Transactions};
use mgp_toolindex::IndexedTool;
use mgp_types::method::{Request as _, ToolsCall};
use mgp_types::mgp::RiskLevel;
use mgp_types::proposal::TransactionRecord;
use mgp_types::service::{
    BoxFuture, Call, Context, CredentialGrant, Method, Params, Peer, Reply, Scope, ScopeKind,
    ServerId, Visibility as _,
};
use mgp_types::{ErrorCode, Object, Payload, RpcError};

use crate::dispatch;
use crate::handle::{Kernel, KernelParts};

/// The [`TransactionTools`] of a kernel: calls tools of its servers to undo steps. Does not keep the kernel alive.
struct CompensationCaller(Weak<KernelParts>);

impl Kernel {
    /// Continues the rollbacks that were interrupted when an earlier process of the kernel ended.
    pub(crate) fn start_transactions(&self) {
        if let Some(transactions) = &self.0.fleet.context().calls.transactions {
            transactions.start(Arc::new(CompensationCaller(Arc::downgrade(&self.0))));
        }
    }

    /// Returns the handle of the kernel's transactions.
    ///
    /// # Errors
    /// −32601 if the configuration does not offer transactions.
    pub(crate) fn transactions(&self) -> Result<&Transactions, RpcError> {
        let off = "this kernel has no transactions; add `transactions` to `kernel.extensions`";
        let off = || RpcError::new(ErrorCode::METHOD_NOT_FOUND, off);
        self.0.fleet.context().calls.transactions.as_ref().ok_or_else(off)
    }
}

impl CompensationCaller {
    fn kernel(&self) -> Result<Arc<KernelParts>, RpcError> {
        self.0.upgrade().ok_or_else(|| RpcError::internal("the kernel stops"))
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
        definitions.assessment(Some(server), tool).effective_risk == RiskLevel::Safe
    }

    fn compensate(&self, call: CompensationCall) -> BoxFuture<'static, Result<Reply, RpcError>> {
        let kernel = self.kernel();
        Box::pin(async move {
            let kernel = kernel?;
            let grant = match call.credentials {
                Some(credentials) => Some(valid_grant(&kernel, credentials).await?),
                None => None,
            };
            let dispatcher = kernel.dispatcher.clone();
            drop(kernel);
            let mut named = Object::new();
            named.encode("name", &call.tool)?;
            named.insert("arguments", call.arguments.into());
            let mut members = Object::new();
            let server = call.server;
            members.encode("server_id", server.as_str())?;
            named.encode("_mgp", &members)?;
            let params = Payload::of(&named)?;
            let params = Params::split(ToolsCall::METHOD, params.as_shared().clone())?;
            let scope = Scope::new(ScopeKind::Connection);
            let mut cx = Context::new(Peer::none(), scope.clone(), call.principal);
            cx.extensions.insert(call.members);
            if let Some(grant) = grant {
                cx.extensions.insert(grant);
            }
            let call = Call::request(Method::from_static(ToolsCall::METHOD), params, cx);
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

    fn report(&self, tenant: &str, transaction: &TransactionRecord) {
        if let Ok(kernel) = self.kernel() {
            kernel.fleet.context().events.transaction_stuck(tenant, transaction);
        }
    }
}

/// Returns the rights of the caller that began a transaction; the caller's own session may have ended long ago.
///
/// # Errors
/// 1000 if the caller's key was revoked or has expired.
async fn valid_grant(
    kernel: &KernelParts,
    credentials: TransactionCredentials,
) -> Result<CredentialGrant, RpcError> {
    let TransactionCredentials { key, permissions, .. } = credentials;
    if let Some(key) = key {
        let is_live = match &kernel.fleet.context().calls.live_keys {
            Some(live_keys) => live_keys(key).await,
            None => false,
        };
        if !is_live {
            let message = "the credentials of its caller have ended; an operator may try again";
            return Err(RpcError::new(ErrorCode::PERMISSION_DENIED, message));
        }
    }
    Ok(CredentialGrant::new(permissions, || true))
}
