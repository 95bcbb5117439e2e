//! Messages of MGP, one module per section; unknown members are preserved (MGP §2 to §16).

mod access;
mod audit;
mod call;
mod capability;
mod code_safety;
mod discovery;
mod event;
mod extension;
mod kernel;
mod lifecycle;
mod permission;
mod security;
mod stream;
mod tool_discovery;

pub use access::{
    AccessEntry, AccessGrantParams, AccessGrantResult, AccessPermission, AccessQueryParams,
    AccessQueryResult, AccessRevokeParams, AccessRevokeResult, AccessSource, DefaultPolicy,
    EntryType,
};
pub use audit::{
    Actor, AuditEvent, AuditReplayParams, AuditReplayResult, AuditResult, EventType, Target,
};
pub use call::{CallExtension, NotificationExtension, ResultExtension};
pub use capability::{MgpCapability, MgpDeclaration, MgpVersion};
pub use code_safety::{CodeHints, CodeRejection, CodeSafety, CodeSafetyLevel, RejectionStatus};
pub use discovery::{
    DeregisterParams, DeregisterResult, DiscoveryFilter, DiscoveryListParams, DiscoveryListResult,
    RegisterParams, RegisterResult, RegistrationStatus, ServerConfig, ServerEntry, ServerMgpConfig,
    ServerSummary, Transport,
};
pub use event::{
    CallbackRequestParams, CallbackRespondParams, CallbackRespondResult, CallbackStatus,
    CallbackType, EventAttachment, EventChannel, EventChannelsParams, EventChannelsResult,
    EventFilter, EventParams, EventsReplayParams, EventsReplayResult, ListenExtension, Severity,
    SubscribeEventsParams, SubscribeEventsResult, UnsubscribeParams, UnsubscribeResult,
};
pub use extension::{Extension, ExtensionSet};
pub use kernel::{
    ExplainedOutcome, ExplainedResult, ExplainedStep, KernelApproval, KernelApprovalDecisionParams,
    KernelApprovalDecisionResult, KernelApprovalsParams, KernelApprovalsResult, KernelAuditParams,
    KernelAuditResult, KernelAuditVerifyParams, KernelAuditVerifyResult, KernelCallback,
    KernelCallbackAnswerParams, KernelCallbackAnswerResult, KernelCallbacksParams,
    KernelCallbacksResult, KernelChange, KernelClient, KernelEventsParams, KernelEventsResult,
    KernelExplainParams, KernelExplainResult, KernelFinding, KernelInfoParams, KernelInfoResult,
    KernelLogLine, KernelPermission, KernelPermissionChangeParams, KernelPermissionChangeResult,
    KernelPermissionsParams, KernelPermissionsResult, KernelReloadParams, KernelReloadResult,
    KernelSavedDay, KernelServer, KernelServerLogsParams, KernelServerLogsResult,
    KernelServerParams, KernelServerResult, KernelServerTokens, KernelServersParams,
    KernelServersResult, KernelSession, KernelSessionsParams, KernelSessionsResult,
    KernelStopParams, KernelStopResult, KernelSubscription, KernelSubscriptionEndParams,
    KernelSubscriptionEndResult, KernelSubscriptionsParams, KernelSubscriptionsResult,
    KernelTokensParams, KernelTokensResult, KernelTool, KernelToolDecisionParams,
    KernelToolDecisionResult, KernelToolsParams, KernelToolsResult, KernelUnmetSearch,
    KernelWebhook, KernelWebhookFailure, KernelWebhooksParams, KernelWebhooksResult, ToolStanding,
};
pub use lifecycle::{
    HealthStatus, LifecycleParams, PingParams, PingResult, RestartConfig, RestartPolicy,
    ServerState, ShutdownParams, ShutdownReason, ShutdownResult, StatusParams, StatusResult,
};
pub use permission::{
    ApprovalPolicy, Grant, GrantDecision, Permission, PermissionAck, PermissionDecision,
    PermissionRequestParams, PermissionRequestResult, PermissionScope, ScopedGrant,
};
pub use security::{RiskLevel, SideEffect, ToolDeclaration, ToolSecurity, TrustLevel, Validator};
pub use stream::{
    CancelParams, CancelResult, ChunkParams, GapParams, GapUnrecoverableParams, PaceParams,
    PartialContent, PartialResult, StreamProgressParams,
};
pub use tool_discovery::{
    ContextBudget, ContextBudgetConfig, ContextLevel, DiscoverExtension, DiscoverOrder,
    DiscoverToolsFilter, DiscoverToolsParams, DiscoverToolsResult, EvictParams, EvictResult,
    FoundTool, IndexEntry, QueryPart, RequestReason, RequestStatus, RequestToolsParams,
    RequestToolsResult, SearchStrategy, SessionParams, SessionResult, ToolRequirements,
    UnavailableTool,
};
