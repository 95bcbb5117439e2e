//! The kernel's own methods for operators, `mgp/kernel/*`, which no specification defines.
//!
//! A caller that is not an operator is refused before its params are read. The audit log records each refused attempt
//! and each change. Operators can also call the methods as tools, but no tool list contains them.
//!
//! An operator of another tenant than `local` can call only the methods added with `read_own` and `change_own`, whose
//! handlers show and change what belongs to the tenant of the caller, and nothing else.

mod approvals;
mod audit;
mod callbacks;
mod events;
mod explain;
mod methods;
mod permissions;
mod process;
mod servers;
mod tools;
mod transactions;

use mgp_types::method::{
    KernelApprovals, KernelApprovalsApprove, KernelApprovalsDeny, KernelAudit, KernelAuditVerify,
    KernelCallbacks, KernelCallbacksAnswer, KernelEvents, KernelExplain, KernelInfo,
    KernelPermissions, KernelPermissionsApprove, KernelPermissionsDeny, KernelPermissionsRevoke,
    KernelReload, KernelServers, KernelServersDrain, KernelServersLogs, KernelServersRestart,
    KernelServersStart, KernelServersStop, KernelSessions, KernelStop, KernelTools,
    KernelToolsApprove, KernelToolsReject, KernelToolsTokens, KernelTransactions,
    KernelTransactionsResolve, KernelTransactionsRetry, KernelWebhooks,
};
use mgp_types::service::Router;

use super::handle::Kernel;
pub(crate) use explain::requirement_words;
use methods::OperatorMethods;

/// Returns the router of all methods for operators.
pub(super) fn router(kernel: &Kernel) -> Router {
    OperatorMethods::new(kernel)
        .read::<KernelInfo, _, _>(process::info)
        .read::<KernelSessions, _, _>(process::sessions)
        .change::<KernelStop, _, _>(process::stop)
        .change::<KernelReload, _, _>(process::reload)
        .read::<KernelServers, _, _>(servers::list)
        .read::<KernelServersLogs, _, _>(servers::log)
        .change::<KernelServersStart, _, _>(servers::start)
        .change::<KernelServersStop, _, _>(servers::stop)
        .change::<KernelServersRestart, _, _>(servers::restart)
        .change::<KernelServersDrain, _, _>(servers::drain)
        .read::<KernelTools, _, _>(tools::list)
        .read::<KernelToolsTokens, _, _>(tools::tokens)
        .change::<KernelToolsApprove, _, _>(tools::approve)
        .change::<KernelToolsReject, _, _>(tools::reject)
        .read::<KernelExplain, _, _>(explain::explain)
        .read_own::<KernelPermissions, _, _>(permissions::list)
        .change_own::<KernelPermissionsApprove, _, _>(permissions::approve)
        .change_own::<KernelPermissionsDeny, _, _>(permissions::deny)
        .change_own::<KernelPermissionsRevoke, _, _>(permissions::revoke)
        .read_own::<KernelApprovals, _, _>(approvals::list)
        .change_own::<KernelApprovalsApprove, _, _>(approvals::approve)
        .change_own::<KernelApprovalsDeny, _, _>(approvals::deny)
        .read_own::<KernelCallbacks, _, _>(callbacks::list)
        .change_own::<KernelCallbacksAnswer, _, _>(callbacks::answer)
        .read_own::<KernelTransactions, _, _>(transactions::list)
        .change_own::<KernelTransactionsRetry, _, _>(transactions::retry)
        .change_own::<KernelTransactionsResolve, _, _>(transactions::resolve)
        .read::<KernelAudit, _, _>(audit::query)
        .read::<KernelAuditVerify, _, _>(audit::verify)
        .read::<KernelEvents, _, _>(events::recent)
        .read::<KernelWebhooks, _, _>(events::webhooks)
        .into_router()
}
