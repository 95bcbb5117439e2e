//! What an operator asks of a running kernel: `mgp/kernel/*` (no section of MGP).
//!
//! These methods are this kernel's own and not of the specification: no other kernel has to know them.
//! Each is for operators only, and none is in any list of tools.
//!
//! Applies to: inbound.

mod approval;
mod audit;
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
    KernelServerTokens, KernelTokensParams, KernelTokensResult, KernelTool,
    KernelToolDecisionParams, KernelToolDecisionResult, KernelToolsParams, KernelToolsResult,
    ToolStanding,
};
