//! Operator methods of a running kernel: `mgp/kernel/*` (outside the specification of MGP).
//!
//! Only this kernel has these methods; other kernels need not implement them.
//! Only operators are allowed to call them, and no list of tools contains them.

mod approval;
mod audit;
mod callback;
mod event;
mod explain;
mod permission;
mod process;
mod server;
mod tool;

pub use approval::{
    KernelApproval, KernelApprovalDecisionParams, KernelApprovalDecisionResult,
    KernelApprovalsParams, KernelApprovalsResult,
};
pub use audit::{
    KernelAuditParams, KernelAuditResult, KernelAuditVerifyParams, KernelAuditVerifyResult,
};
pub use callback::{
    KernelCallback, KernelCallbackAnswerParams, KernelCallbackAnswerResult, KernelCallbacksParams,
    KernelCallbacksResult,
};
pub use event::{
    KernelEventsParams, KernelEventsResult, KernelSubscription, KernelSubscriptionEndParams,
    KernelSubscriptionEndResult, KernelSubscriptionsParams, KernelSubscriptionsResult,
    KernelWebhook, KernelWebhookFailure, KernelWebhooksParams, KernelWebhooksResult,
};
pub use explain::{
    ExplainedOutcome, ExplainedResult, ExplainedStep, KernelExplainParams, KernelExplainResult,
};
pub use permission::{
    KernelPermission, KernelPermissionChangeParams, KernelPermissionChangeResult,
    KernelPermissionsParams, KernelPermissionsResult,
};
pub use process::{
    KernelChange, KernelClient, KernelFinding, KernelInfoParams, KernelInfoResult,
    KernelReloadParams, KernelReloadResult, KernelSession, KernelSessionsParams,
    KernelSessionsResult, KernelStopParams, KernelStopResult,
};
pub use server::{
    KernelLogLine, KernelServer, KernelServerLogsParams, KernelServerLogsResult,
    KernelServerParams, KernelServerResult, KernelServersParams, KernelServersResult,
};
pub use tool::{
    KernelSavedDay, KernelServerTokens, KernelTokensParams, KernelTokensResult, KernelTool,
    KernelToolDecisionParams, KernelToolDecisionResult, KernelToolsParams, KernelToolsResult,
    KernelUnmetSearch, ToolStanding,
};
