//! The kernel's own methods for operators, `mgp/kernel/*`, which no specification defines.
//!
//! The kernel refuses a caller that is not an operator before it reads the caller's params. The audit log records each
//! refused attempt and each change. Operators can also call the methods as tools, but no tool list contains them.
//!
//! An operator of a tenant other than `local` can call only the methods that are added with `ReadsOwnTenant` or
//! `ChangesOwnTenant`. The handlers of these methods show and change only what belongs to the caller's tenant.

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

use mgp_security::Administration::{Changes, ChangesOwnTenant, Reads, ReadsOwnTenant};
use mgp_types::method::{
    KernelApprovals, KernelApprovalsApprove, KernelApprovalsDeny, KernelAudit, KernelAuditVerify,
    KernelCallbacks, KernelCallbacksAnswer, KernelEvents, KernelExplain, KernelInfo,
    KernelPermissions, KernelPermissionsApprove, KernelPermissionsDeny, KernelPermissionsReset,
    KernelPermissionsRevoke, KernelReload, KernelServers, KernelServersDrain, KernelServersLogs,
    KernelServersRestart, KernelServersStart, KernelServersStop, KernelSessions, KernelStop,
    KernelSubscriptions, KernelSubscriptionsEnd, KernelTools, KernelToolsApprove,
    KernelToolsReject, KernelToolsTokens, KernelTransactions, KernelTransactionsResolve,
    KernelTransactionsRetry, KernelWebhooks,
};
use mgp_types::service::Router;

use super::handle::Kernel;
pub(crate) use explain::requirement_words;
use methods::OperatorMethods;

pub(super) fn router(kernel: &Kernel) -> Router {
    OperatorMethods::new(kernel)
        .on::<KernelInfo, _, _>(Reads, process::info)
        .on::<KernelSessions, _, _>(Reads, process::sessions)
        .on::<KernelStop, _, _>(Changes, process::stop)
        .on::<KernelReload, _, _>(Changes, process::reload)
        .on::<KernelServers, _, _>(Reads, servers::list)
        .on::<KernelServersLogs, _, _>(Reads, servers::log)
        .on::<KernelServersStart, _, _>(Changes, servers::start)
        .on::<KernelServersStop, _, _>(Changes, servers::stop)
        .on::<KernelServersRestart, _, _>(Changes, servers::restart)
        .on::<KernelServersDrain, _, _>(Changes, servers::drain)
        .on::<KernelTools, _, _>(Reads, tools::list)
        .on::<KernelToolsTokens, _, _>(Reads, tools::tokens)
        .on::<KernelToolsApprove, _, _>(Changes, tools::approve)
        .on::<KernelToolsReject, _, _>(Changes, tools::reject)
        .on::<KernelExplain, _, _>(Reads, explain::explain)
        .on::<KernelPermissions, _, _>(ReadsOwnTenant, permissions::list)
        .on::<KernelPermissionsApprove, _, _>(ChangesOwnTenant, permissions::approve)
        .on::<KernelPermissionsDeny, _, _>(ChangesOwnTenant, permissions::deny)
        .on::<KernelPermissionsRevoke, _, _>(ChangesOwnTenant, permissions::revoke)
        .on::<KernelPermissionsReset, _, _>(ChangesOwnTenant, permissions::reset)
        .on::<KernelApprovals, _, _>(ReadsOwnTenant, approvals::list)
        .on::<KernelApprovalsApprove, _, _>(ChangesOwnTenant, approvals::approve)
        .on::<KernelApprovalsDeny, _, _>(ChangesOwnTenant, approvals::deny)
        .on::<KernelCallbacks, _, _>(ReadsOwnTenant, callbacks::list)
        .on::<KernelCallbacksAnswer, _, _>(ChangesOwnTenant, callbacks::answer)
        .on::<KernelTransactions, _, _>(ReadsOwnTenant, transactions::list)
        .on::<KernelTransactionsRetry, _, _>(ChangesOwnTenant, transactions::retry)
        .on::<KernelTransactionsResolve, _, _>(ChangesOwnTenant, transactions::resolve)
        .on::<KernelAudit, _, _>(Reads, audit::query)
        .on::<KernelAuditVerify, _, _>(Reads, audit::verify)
        .on::<KernelEvents, _, _>(Reads, events::recent)
        .on::<KernelSubscriptions, _, _>(ReadsOwnTenant, events::subscriptions)
        .on::<KernelSubscriptionsEnd, _, _>(ChangesOwnTenant, events::end_subscription)
        .on::<KernelWebhooks, _, _>(Reads, events::webhooks)
        .into_router()
}
