//! The table of methods and its marker types (all revisions of MCP, MGP §3 to §16).

#[cfg(feature = "schema")]
use super::shape::{Shape, Shapes};
use super::{Direction, Kind, MethodInfo, Notification, Request};
use crate::RawObject;
use crate::mcp::{self, EmptyParams, EmptyResult, Revision};
use crate::mgp::{self, Extension};
use crate::proposal;

/// Defines the marker types, the table of methods and the list of their names from one list of methods.
macro_rules! methods {
    ($(
        $(#[doc = $doc:literal])*
        $kind:ident $marker:ident = $name:literal ($params:ty) $(-> $result:ty)?,
        $direction:ident, $section:literal,
        $($extension:ident)? [$first:ident to $last:ident] $($seed:literal)?;
    )+) => {
        $(
            $(#[doc = $doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
            pub struct $marker;

            methods!(@impl $kind $marker $name $params $(, $result)?);
        )+

        static TABLE: &[MethodInfo] = &[$(
            MethodInfo {
                name: $name,
                marker: stringify!($marker),
                kind: Kind::$kind,
                direction: Direction::$direction,
                section: $section,
                extension: methods!(@extension $($extension)?),
                first: Revision::$first,
                last: Revision::$last,
                seed: methods!(@seed $($seed)?),
                params: stringify!($params),
                result: methods!(@result $($result)?),
            },
        )+];

        const NAMES: &[&str] = &[$($name),+];

        /// The types of the params and result of each method, with the name of the method's marker type.
        #[cfg(feature = "schema")]
        static SHAPES: &[Shapes] = &[$(
            Shapes {
                marker: stringify!($marker),
                params: Shape::of::<$params>(stringify!($params)),
                result: methods!(@shape $($result)?),
            },
        )+];
    };

    (@impl Request $marker:ident $name:literal $params:ty, $result:ty) => {
        impl Request for $marker {
            const METHOD: &'static str = $name;
            type Params = $params;
            type Result = $result;
        }
    };
    (@impl Notification $marker:ident $name:literal $params:ty) => {
        impl Notification for $marker {
            const METHOD: &'static str = $name;
            type Params = $params;
        }
    };

    (@extension) => { None };
    (@extension $extension:ident) => { Some(Extension::$extension) };
    (@seed) => { false };
    (@seed $seed:literal) => { true };
    (@shape) => { None };
    (@shape $result:ty) => { Some(Shape::of::<$result>(stringify!($result))) };
    (@result) => { None };
    (@result $result:ty) => { Some(stringify!($result)) };
}

methods! {
    /// Opens a legacy connection.
    Request Initialize = "initialize" (mcp::InitializeParams) -> mcp::InitializeResult,
        ToServer, "MCP", [V2024_11_05 to V2025_11_25];
    /// Checks that the peer responds (legacy).
    Request Ping = "ping" (EmptyParams) -> EmptyResult,
        Both, "MCP", [V2024_11_05 to V2025_11_25];
    /// Requests the identity and capabilities of a modern server.
    Request ServerDiscover = "server/discover" (mcp::DiscoverParams) -> mcp::DiscoverResult,
        ToServer, "MCP", [V2026_07_28 to V2026_07_28];
    /// Lists the tools.
    Request ToolsList = "tools/list" (mcp::ListParams) -> mcp::ListToolsResult,
        ToServer, "MCP", [V2024_11_05 to V2026_07_28];
    /// Calls a tool.
    Request ToolsCall = "tools/call" (mcp::CallToolParams) -> mcp::CallToolResult,
        ToServer, "MCP", [V2024_11_05 to V2026_07_28];
    /// Checks arguments against the input schema of a tool, without a call of the tool (an addition to MCP).
    Request ToolsValidate = "tools/validate" (mcp::ValidateToolParams) -> mcp::ValidateToolResult,
        ToServer, "MCP", [V2024_11_05 to V2026_07_28];
    /// Lists the resources.
    Request ResourcesList = "resources/list" (mcp::ListParams) -> mcp::ListResourcesResult,
        ToServer, "MCP", [V2024_11_05 to V2026_07_28];
    /// Lists the resource templates.
    Request ResourcesTemplatesList = "resources/templates/list" (mcp::ListParams) -> mcp::ListResourceTemplatesResult,
        ToServer, "MCP", [V2024_11_05 to V2026_07_28];
    /// Reads a resource.
    Request ResourcesRead = "resources/read" (mcp::ReadResourceParams) -> mcp::ReadResourceResult,
        ToServer, "MCP", [V2024_11_05 to V2026_07_28];
    /// Subscribes to a resource (legacy).
    Request ResourcesSubscribe = "resources/subscribe" (mcp::SubscribeParams) -> EmptyResult,
        ToServer, "MCP", [V2024_11_05 to V2025_11_25];
    /// Unsubscribes from a resource (legacy).
    Request ResourcesUnsubscribe = "resources/unsubscribe" (mcp::SubscribeParams) -> EmptyResult,
        ToServer, "MCP", [V2024_11_05 to V2025_11_25];
    /// Lists the skills (SEP-2640).
    Request SkillsList = "skills/list" (mcp::ListParams) -> mcp::ListSkillsResult,
        ToServer, "MCP", [V2026_07_28 to V2026_07_28];
    /// Returns one skill (SEP-2640).
    Request SkillsGet = "skills/get" (mcp::GetSkillParams) -> mcp::GetSkillResult,
        ToServer, "MCP", [V2026_07_28 to V2026_07_28];
    /// Lists the files and directories in a directory (SEP-2640).
    Request ResourcesDirectoryRead = "resources/directory/read" (mcp::ReadDirectoryParams) -> mcp::ReadDirectoryResult,
        ToServer, "MCP", [V2026_07_28 to V2026_07_28];
    /// Lists the prompts.
    Request PromptsList = "prompts/list" (mcp::ListParams) -> mcp::ListPromptsResult,
        ToServer, "MCP", [V2024_11_05 to V2026_07_28];
    /// Returns a prompt with its arguments filled in.
    Request PromptsGet = "prompts/get" (mcp::GetPromptParams) -> mcp::GetPromptResult,
        ToServer, "MCP", [V2024_11_05 to V2026_07_28];
    /// Requests proposals for the value of an argument.
    Request CompletionComplete = "completion/complete" (mcp::CompleteParams) -> mcp::CompleteResult,
        ToServer, "MCP", [V2024_11_05 to V2026_07_28];
    /// Sets the lowest severity of the log messages that the server sends (legacy).
    Request LoggingSetLevel = "logging/setLevel" (mcp::SetLevelParams) -> EmptyResult,
        ToServer, "MCP", [V2024_11_05 to V2025_11_25];
    /// Opens the stream of notifications (modern).
    Request SubscriptionsListen = "subscriptions/listen" (mcp::ListenParams) -> mcp::ListenResult,
        ToServer, "MCP", [V2026_07_28 to V2026_07_28];
    /// Requests a completion by the client's model (legacy; a modern server sends this request inside a result).
    Request SamplingCreateMessage = "sampling/createMessage" (mcp::CreateMessageParams) -> mcp::CreateMessageResult,
        ToClient, "MCP", [V2024_11_05 to V2025_11_25];
    /// Requests the client's roots (legacy; a modern server sends this request inside a result).
    Request RootsList = "roots/list" (EmptyParams) -> mcp::ListRootsResult,
        ToClient, "MCP", [V2024_11_05 to V2025_11_25];
    /// Asks the user (legacy; a modern server sends this request inside a result).
    Request ElicitationCreate = "elicitation/create" (mcp::ElicitParams) -> mcp::ElicitResult,
        ToClient, "MCP", [V2025_06_18 to V2025_11_25];
    /// Requests the state of a task.
    Request TasksGet = "tasks/get" (mcp::TaskParams) -> mcp::Task,
        Both, "MCP", [V2025_11_25 to V2026_07_28];
    /// Requests the result of a task (MCP 2025-11-25).
    Request TasksResult = "tasks/result" (mcp::TaskParams) -> RawObject,
        Both, "MCP", [V2025_11_25 to V2025_11_25];
    /// Lists the tasks (MCP 2025-11-25).
    Request TasksList = "tasks/list" (mcp::ListParams) -> mcp::ListTasksResult,
        Both, "MCP", [V2025_11_25 to V2025_11_25];
    /// Cancels a task.
    Request TasksCancel = "tasks/cancel" (mcp::TaskParams) -> mcp::CancelTaskResult,
        Both, "MCP", [V2025_11_25 to V2026_07_28];
    /// Sends the input for which a task waits (tasks extension).
    Request TasksUpdate = "tasks/update" (mcp::UpdateTaskParams) -> EmptyResult,
        ToServer, "MCP", [V2026_07_28 to V2026_07_28];
    /// Completes the handshake (legacy).
    Notification Initialized = "notifications/initialized" (EmptyParams),
        ToServer, "MCP", [V2024_11_05 to V2025_11_25];
    /// Cancels a request.
    Notification Cancelled = "notifications/cancelled" (mcp::CancelledParams),
        Both, "MCP", [V2024_11_05 to V2026_07_28];
    /// Reports the progress of a request.
    Notification Progress = "notifications/progress" (mcp::ProgressParams),
        Both, "MCP", [V2024_11_05 to V2026_07_28];
    /// Sends a log message.
    Notification LogMessage = "notifications/message" (mcp::LogMessageParams),
        ToClient, "MCP", [V2024_11_05 to V2026_07_28];
    /// Reports that a resource changed.
    Notification ResourcesUpdated = "notifications/resources/updated" (mcp::ResourceUpdatedParams),
        ToClient, "MCP", [V2024_11_05 to V2026_07_28];
    /// Reports that the list of resources changed.
    Notification ResourcesListChanged = "notifications/resources/list_changed" (EmptyParams),
        ToClient, "MCP", [V2024_11_05 to V2026_07_28];
    /// Reports that the list of tools changed.
    Notification ToolsListChanged = "notifications/tools/list_changed" (EmptyParams),
        ToClient, "MCP", [V2024_11_05 to V2026_07_28];
    /// Reports that the list of prompts changed.
    Notification PromptsListChanged = "notifications/prompts/list_changed" (EmptyParams),
        ToClient, "MCP", [V2024_11_05 to V2026_07_28];
    /// Reports that the roots changed (legacy).
    Notification RootsListChanged = "notifications/roots/list_changed" (EmptyParams),
        ToServer, "MCP", [V2024_11_05 to V2025_11_25];
    /// Reports that an elicitation by URL is complete (MCP 2025-11-25).
    Notification ElicitationComplete = "notifications/elicitation/complete" (mcp::ElicitationCompleteParams),
        ToClient, "MCP", [V2025_11_25 to V2025_11_25];
    /// Reports the state of a task (MCP 2025-11-25).
    Notification TasksStatus = "notifications/tasks/status" (mcp::Task),
        Both, "MCP", [V2025_11_25 to V2025_11_25];
    /// Reports the state of a task (tasks extension).
    Notification TasksNotification = "notifications/tasks" (mcp::Task),
        ToClient, "MCP", [V2026_07_28 to V2026_07_28];
    /// Lists the notifications that the server agreed to send on a subscription (modern).
    Notification SubscriptionsAcknowledged = "notifications/subscriptions/acknowledged" (mcp::SubscriptionsAcknowledgedParams),
        ToClient, "MCP", [V2026_07_28 to V2026_07_28];
    /// Informs a server that its permissions are being decided or, if sent by a server, requests permissions.
    Request PermissionRequest = "mgp/permission/request" (mgp::PermissionRequestParams) -> mgp::PermissionRequestResult,
        Both, "3.5", Permissions [V2024_11_05 to V2026_07_28] "seed";
    /// Sends the decision about permissions.
    Request PermissionResponse = "mgp/permission/response" (mgp::PermissionDecision) -> mgp::PermissionAck,
        ToServer, "3.6", Permissions [V2024_11_05 to V2026_07_28] "seed";
    /// The name of `mgp/permission/request` in later revisions of MGP.
    Request PermissionAwait = "mgp/permission/await" (mgp::PermissionRequestParams) -> mgp::PermissionRequestResult,
        ToServer, "3.5", Permissions [V2024_11_05 to V2026_07_28];
    /// The name of `mgp/permission/response` in later revisions of MGP.
    Request PermissionGrant = "mgp/permission/grant" (mgp::PermissionDecision) -> mgp::PermissionAck,
        ToServer, "3.6", Permissions [V2024_11_05 to V2026_07_28];
    /// Queries the access of an agent to a tool.
    Request AccessQuery = "mgp/access/query" (mgp::AccessQueryParams) -> mgp::AccessQueryResult,
        ToServer, "5.4", AccessControl [V2024_11_05 to V2026_07_28] "seed";
    /// Grants or denies access.
    Request AccessGrant = "mgp/access/grant" (mgp::AccessGrantParams) -> mgp::AccessGrantResult,
        ToServer, "5.4", AccessControl [V2024_11_05 to V2026_07_28] "seed";
    /// Revokes an agent's access entries.
    Request AccessRevoke = "mgp/access/revoke" (mgp::AccessRevokeParams) -> mgp::AccessRevokeResult,
        ToServer, "5.4", AccessControl [V2024_11_05 to V2026_07_28] "seed";
    /// Checks that a peer responds.
    Request HealthPing = "mgp/health/ping" (mgp::PingParams) -> mgp::PingResult,
        Both, "11.3", Lifecycle [V2024_11_05 to V2026_07_28] "seed";
    /// Requests the health of a server.
    Request HealthStatusGet = "mgp/health/status" (mgp::StatusParams) -> mgp::StatusResult,
        ToServer, "11.3", Lifecycle [V2024_11_05 to V2026_07_28] "seed";
    /// Stops a server.
    Request LifecycleShutdown = "mgp/lifecycle/shutdown" (mgp::ShutdownParams) -> mgp::ShutdownResult,
        ToServer, "11.4", Lifecycle [V2024_11_05 to V2026_07_28] "seed";
    /// Cancels a call and requests its partial result.
    Request StreamCancel = "mgp/stream/cancel" (mgp::CancelParams) -> mgp::CancelResult,
        ToServer, "12.7", Streaming [V2024_11_05 to V2026_07_28] "seed";
    /// Subscribes to events.
    Request EventsSubscribe = "mgp/events/subscribe" (mgp::SubscribeEventsParams) -> mgp::SubscribeEventsResult,
        ToServer, "13.2", Events [V2024_11_05 to V2026_07_28] "seed";
    /// Ends a subscription.
    Request EventsUnsubscribe = "mgp/events/unsubscribe" (mgp::UnsubscribeParams) -> mgp::UnsubscribeResult,
        ToServer, "13.2", Events [V2024_11_05 to V2026_07_28] "seed";
    /// Returns the events that the server still keeps for a subscription.
    Request EventsReplay = "mgp/events/replay" (mgp::EventsReplayParams) -> mgp::EventsReplayResult,
        ToServer, "13.3", Events [V2024_11_05 to V2026_07_28];
    /// Lists the channels of events.
    Request EventsChannels = "mgp/events/channels" (mgp::EventChannelsParams) -> mgp::EventChannelsResult,
        ToServer, "13.5", Events [V2024_11_05 to V2026_07_28];
    /// Checks whether a call would run.
    Request PermissionsCheck = "mgp/permissions/check" (proposal::CheckPermissionsParams) -> proposal::CheckPermissionsResult,
        ToServer, "proposal 4", Scopes [V2024_11_05 to V2026_07_28];
    /// Requests scopes, which are granted as a session of limited duration.
    Request ScopesNegotiate = "mgp/scopes/negotiate" (proposal::NegotiateScopesParams) -> proposal::NegotiateScopesResult,
        ToServer, "proposal 4", Scopes [V2024_11_05 to V2026_07_28];
    /// Ends a session with scopes.
    Request ScopesRevoke = "mgp/scopes/revoke" (proposal::RevokeScopesParams) -> proposal::RevokeScopesResult,
        ToServer, "proposal 4", Scopes [V2024_11_05 to V2026_07_28];
    /// Answers a callback.
    Request CallbackRespond = "mgp/callback/respond" (mgp::CallbackRespondParams) -> mgp::CallbackRespondResult,
        ToServer, "13.4", Callbacks [V2024_11_05 to V2026_07_28] "seed";
    /// Lists the servers.
    Request DiscoveryList = "mgp/discovery/list" (mgp::DiscoveryListParams) -> mgp::DiscoveryListResult,
        ToServer, "15.2", Discovery [V2024_11_05 to V2026_07_28] "seed";
    /// Registers a server.
    Request DiscoveryRegister = "mgp/discovery/register" (mgp::RegisterParams) -> mgp::RegisterResult,
        ToServer, "15.4", Discovery [V2024_11_05 to V2026_07_28] "seed";
    /// Removes a registered server.
    Request DiscoveryDeregister = "mgp/discovery/deregister" (mgp::DeregisterParams) -> mgp::DeregisterResult,
        ToServer, "15.5", Discovery [V2024_11_05 to V2026_07_28] "seed";
    /// Searches for tools.
    Request ToolsDiscover = "mgp/tools/discover" (mgp::DiscoverToolsParams) -> mgp::DiscoverToolsResult,
        ToServer, "16.5", ToolDiscovery [V2024_11_05 to V2026_07_28] "seed";
    /// Requests tools that an agent needs for its current task.
    Request ToolsRequest = "mgp/tools/request" (mgp::RequestToolsParams) -> mgp::RequestToolsResult,
        ToServer, "16.6", ToolDiscovery [V2024_11_05 to V2026_07_28] "seed";
    /// Lists the tools of the session.
    Request ToolsSession = "mgp/tools/session" (mgp::SessionParams) -> mgp::SessionResult,
        ToServer, "16.7", ToolDiscovery [V2024_11_05 to V2026_07_28] "seed";
    /// Evicts tools from the session.
    Request ToolsSessionEvict = "mgp/tools/session/evict" (mgp::EvictParams) -> mgp::EvictResult,
        ToServer, "16.7", ToolDiscovery [V2024_11_05 to V2026_07_28] "seed";
    /// Returns the description of the whole server, as the caller sees it.
    Request ManifestGet = "mgp/manifest/get" (proposal::ManifestParams) -> proposal::ServiceManifest,
        ToServer, "proposal 1", Manifest [V2024_11_05 to V2026_07_28];
    /// Recommends servers of a registry for a need that no connected server meets.
    Request ServersRecommend = "mgp/servers/recommend" (proposal::RecommendServersParams) -> proposal::RecommendServersResult,
        ToServer, "proposal 13", ServerRecommendations [V2024_11_05 to V2026_07_28];
    /// Returns the state of a kernel and its clients.
    Request KernelInfo = "mgp/kernel/info" (mgp::KernelInfoParams) -> mgp::KernelInfoResult,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Stops a kernel.
    Request KernelStop = "mgp/kernel/stop" (mgp::KernelStopParams) -> mgp::KernelStopResult,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Makes a kernel read its configuration files again.
    Request KernelReload = "mgp/kernel/reload" (mgp::KernelReloadParams) -> mgp::KernelReloadResult,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Lists the servers of a kernel, with details for operators.
    Request KernelServers = "mgp/kernel/servers" (mgp::KernelServersParams) -> mgp::KernelServersResult,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Starts a server of a kernel.
    Request KernelServersStart = "mgp/kernel/servers/start" (mgp::KernelServerParams) -> mgp::KernelServerResult,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Stops a server of a kernel.
    Request KernelServersStop = "mgp/kernel/servers/stop" (mgp::KernelServerParams) -> mgp::KernelServerResult,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Restarts a server of a kernel.
    Request KernelServersRestart = "mgp/kernel/servers/restart" (mgp::KernelServerParams) -> mgp::KernelServerResult,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Lets a server of a kernel complete its running requests, stops it, and waits until it has stopped.
    Request KernelServersDrain = "mgp/kernel/servers/drain" (mgp::KernelServerParams) -> mgp::KernelServerResult,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Returns lines that a server of a kernel wrote to its standard error.
    Request KernelServersLogs = "mgp/kernel/servers/logs" (mgp::KernelServerLogsParams) -> mgp::KernelServerLogsResult,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Lists the tools of a kernel, with the reasons why some are hidden from an agent.
    Request KernelTools = "mgp/kernel/tools" (mgp::KernelToolsParams) -> mgp::KernelToolsResult,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Approves a tool definition that waits for an operator's decision.
    Request KernelToolsApprove = "mgp/kernel/tools/approve" (mgp::KernelToolDecisionParams) -> mgp::KernelToolDecisionResult,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Rejects a tool definition that waits for an operator's decision.
    Request KernelToolsReject = "mgp/kernel/tools/reject" (mgp::KernelToolDecisionParams) -> mgp::KernelToolDecisionResult,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Returns the token cost of an agent's list of tools.
    Request KernelToolsTokens = "mgp/kernel/tools/tokens" (mgp::KernelTokensParams) -> mgp::KernelTokensResult,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Returns how a kernel would decide about a tool call, without making the call.
    Request KernelExplain = "mgp/kernel/explain" (mgp::KernelExplainParams) -> mgp::KernelExplainResult,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Lists the decisions about permissions.
    Request KernelPermissions = "mgp/kernel/permissions" (mgp::KernelPermissionsParams) -> mgp::KernelPermissionsResult,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Approves permissions of a server.
    Request KernelPermissionsApprove = "mgp/kernel/permissions/approve" (mgp::KernelPermissionChangeParams) -> mgp::KernelPermissionChangeResult,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Denies permissions of a server.
    Request KernelPermissionsDeny = "mgp/kernel/permissions/deny" (mgp::KernelPermissionChangeParams) -> mgp::KernelPermissionChangeResult,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Revokes permissions of a server.
    Request KernelPermissionsRevoke = "mgp/kernel/permissions/revoke" (mgp::KernelPermissionChangeParams) -> mgp::KernelPermissionChangeResult,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Removes decisions about permissions of a server.
    Request KernelPermissionsReset = "mgp/kernel/permissions/reset" (mgp::KernelPermissionChangeParams) -> mgp::KernelPermissionChangeResult,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Lists the requests for approval that wait for an operator.
    Request KernelApprovals = "mgp/kernel/approvals" (mgp::KernelApprovalsParams) -> mgp::KernelApprovalsResult,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Approves an open request for approval.
    Request KernelApprovalsApprove = "mgp/kernel/approvals/approve" (mgp::KernelApprovalDecisionParams) -> mgp::KernelApprovalDecisionResult,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Denies an open request for approval.
    Request KernelApprovalsDeny = "mgp/kernel/approvals/deny" (mgp::KernelApprovalDecisionParams) -> mgp::KernelApprovalDecisionResult,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Lists the questions of servers that wait for an operator.
    Request KernelCallbacks = "mgp/kernel/callbacks" (mgp::KernelCallbacksParams) -> mgp::KernelCallbacksResult,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Answers a question of a server.
    Request KernelCallbacksAnswer = "mgp/kernel/callbacks/answer" (mgp::KernelCallbackAnswerParams) -> mgp::KernelCallbackAnswerResult,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Begins a transaction.
    Request TransactionBegin = "transaction/begin" (proposal::BeginTransactionParams) -> proposal::BeginTransactionResult,
        ToServer, "proposal 5", Transactions [V2024_11_05 to V2026_07_28];
    /// Ends a transaction; the effects of its steps stay.
    Request TransactionCommit = "transaction/commit" (proposal::EndTransactionParams) -> proposal::EndTransactionResult,
        ToServer, "proposal 5", Transactions [V2024_11_05 to V2026_07_28];
    /// Undoes the steps of a transaction.
    Request TransactionRollback = "transaction/rollback" (proposal::EndTransactionParams) -> proposal::EndTransactionResult,
        ToServer, "proposal 5", Transactions [V2024_11_05 to V2026_07_28];
    /// Another name of `transaction/begin`.
    Request TxBegin = "mgp/tx/begin" (proposal::BeginTransactionParams) -> proposal::BeginTransactionResult,
        ToServer, "proposal 5", Transactions [V2024_11_05 to V2026_07_28];
    /// Another name of `transaction/commit`.
    Request TxCommit = "mgp/tx/commit" (proposal::EndTransactionParams) -> proposal::EndTransactionResult,
        ToServer, "proposal 5", Transactions [V2024_11_05 to V2026_07_28];
    /// Another name of `transaction/rollback`.
    Request TxRollback = "mgp/tx/rollback" (proposal::EndTransactionParams) -> proposal::EndTransactionResult,
        ToServer, "proposal 5", Transactions [V2024_11_05 to V2026_07_28];
    /// Lists the transactions; transactions that wait for an operator come first.
    Request KernelTransactions = "mgp/kernel/transactions" (proposal::ListTransactionsParams) -> proposal::ListTransactionsResult,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Tries again to undo those steps of a transaction that could not be undone before.
    Request KernelTransactionsRetry = "mgp/kernel/transactions/retry" (proposal::SettleTransactionParams) -> proposal::TransactionRecord,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Records that an operator took care of a transaction.
    Request KernelTransactionsResolve = "mgp/kernel/transactions/resolve" (proposal::SettleTransactionParams) -> proposal::TransactionRecord,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Returns recent events.
    Request KernelEvents = "mgp/kernel/events" (mgp::KernelEventsParams) -> mgp::KernelEventsResult,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Lists the subscriptions of clients to events.
    Request KernelSubscriptions = "mgp/kernel/subscriptions" (mgp::KernelSubscriptionsParams) -> mgp::KernelSubscriptionsResult,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Ends a subscription of a client to events.
    Request KernelSubscriptionsEnd = "mgp/kernel/subscriptions/end" (mgp::KernelSubscriptionEndParams) -> mgp::KernelSubscriptionEndResult,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Lists the webhooks and their failures.
    Request KernelWebhooks = "mgp/kernel/webhooks" (mgp::KernelWebhooksParams) -> mgp::KernelWebhooksResult,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Queries audit events.
    Request KernelAudit = "mgp/kernel/audit" (mgp::KernelAuditParams) -> mgp::KernelAuditResult,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Checks the chain of the audit log.
    Request KernelAuditVerify = "mgp/kernel/audit/verify" (mgp::KernelAuditVerifyParams) -> mgp::KernelAuditVerifyResult,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Lists the sessions of callers, with the tools in their contexts.
    Request KernelSessions = "mgp/kernel/sessions" (mgp::KernelSessionsParams) -> mgp::KernelSessionsResult,
        ToServer, "kernel", [V2024_11_05 to V2026_07_28];
    /// Reports an audit event.
    Notification AuditNotification = "notifications/mgp.audit" (mgp::AuditEvent),
        Both, "6.3", Audit [V2024_11_05 to V2026_07_28] "seed";
    /// Reports that the state of a server changed.
    Notification LifecycleNotification = "notifications/mgp.lifecycle" (mgp::LifecycleParams),
        ToClient, "11.4", Lifecycle [V2024_11_05 to V2026_07_28] "seed";
    /// Carries a piece of a result.
    Notification StreamChunk = "notifications/mgp.stream.chunk" (mgp::ChunkParams),
        ToClient, "12.4", Streaming [V2024_11_05 to V2026_07_28] "seed";
    /// Reports the progress of a call.
    Notification StreamProgress = "notifications/mgp.stream.progress" (mgp::StreamProgressParams),
        ToClient, "12.6", Progress [V2024_11_05 to V2026_07_28] "seed";
    /// Requests a lower rate of chunks (later revisions of MGP).
    Notification StreamPace = "notifications/mgp.stream.pace" (mgp::PaceParams),
        ToServer, "12.8", Streaming [V2024_11_05 to V2026_07_28];
    /// Requests missing chunks (later revisions of MGP).
    Notification StreamGap = "notifications/mgp.stream.gap" (mgp::GapParams),
        ToServer, "12.9", Streaming [V2024_11_05 to V2026_07_28];
    /// Reports that a chunk cannot be sent again (defined by another implementation of MGP).
    Notification StreamGapUnrecoverable = "notifications/mgp.stream.gap_unrecoverable" (mgp::GapUnrecoverableParams),
        ToClient, "12.9", Streaming [V2024_11_05 to V2026_07_28];
    /// Delivers an event to a subscriber.
    Notification EventNotification = "notifications/mgp.event" (mgp::EventParams),
        Both, "13.3", Events [V2024_11_05 to V2026_07_28] "seed";
    /// Asks the user a question, or informs the user.
    Notification CallbackRequest = "notifications/mgp.callback.request" (mgp::CallbackRequestParams),
        ToClient, "13.4", Callbacks [V2024_11_05 to V2026_07_28] "seed";
    /// Reports that the manifest of the server changed.
    Notification ManifestChanged = "notifications/mgp.manifest.changed" (proposal::ManifestParams),
        ToClient, "proposal 1", Manifest [V2024_11_05 to V2026_07_28];
}

/// Returns the static information about all methods.
pub fn methods() -> impl ExactSizeIterator<Item = &'static MethodInfo> {
    TABLE.iter()
}

/// Returns the method with a given name.
#[must_use]
pub fn lookup(name: &str) -> Option<&'static MethodInfo> {
    if name == NAMES[USUAL] {
        return TABLE.get(USUAL);
    }
    let at = ORDER.binary_search_by(|&row| NAMES[row].cmp(name)).ok()?;
    TABLE.get(ORDER[at])
}

/// Returns the parameter and result types of a method.
#[cfg(feature = "schema")]
pub(crate) fn shapes(info: &MethodInfo) -> Option<&'static Shapes> {
    SHAPES.iter().find(|shapes| shapes.marker == info.marker)
}

/// The index of `tools/call` in the table. Most messages have this method, so `lookup` compares it first.
const USUAL: usize = {
    let mut row = 0;
    while is_less(NAMES[row], ToolsCall::METHOD) || is_less(ToolsCall::METHOD, NAMES[row]) {
        row += 1;
    }
    row
};

/// The indices of the methods in the table, ordered by name; sorted at compile time.
static ORDER: [usize; NAMES.len()] = sorted();

const fn sorted() -> [usize; NAMES.len()] {
    let mut order = [0; NAMES.len()];
    let mut row = 0;
    while row < NAMES.len() {
        let mut at = row;
        while at > 0 && is_less(NAMES[row], NAMES[order[at - 1]]) {
            order[at] = order[at - 1];
            at -= 1;
        }
        order[at] = row;
        row += 1;
    }
    order
}

const fn is_less(left: &str, right: &str) -> bool {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    let mut at = 0;
    while at < left.len() && at < right.len() {
        if left[at] != right[at] {
            return left[at] < right[at];
        }
        at += 1;
    }
    left.len() < right.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_is_found() {
        for info in methods() {
            assert_eq!(lookup(info.name).map(|found| found.name), Some(info.name));
            let is_notification = info.name.starts_with("notifications/");
            assert_eq!(info.kind == Kind::Notification, is_notification, "{}", info.name);
            let is_mgp = ["mgp/", "notifications/mgp.", "transaction/"]
                .iter()
                .any(|start| info.name.starts_with(start));
            assert_eq!(info.is_mgp(), is_mgp, "{}", info.name);
            let is_kernels = info.name.starts_with("mgp/kernel/");
            assert_eq!(info.is_kernel_only(), is_kernels, "{}", info.name);
            assert_eq!(is_mgp && !is_kernels, info.extension.is_some(), "{}", info.name);
        }
        for name in ["", "tools", "tools/call/", "zzz", "mgp/tools/sessions"] {
            assert!(lookup(name).is_none(), "{name}");
        }
    }

    #[test]
    fn the_seed_has_nineteen_methods_and_six_notifications() {
        let seed = |kind| methods().filter(|info| info.seed && info.kind == kind).count();
        assert_eq!((seed(Kind::Request), seed(Kind::Notification)), (19, 6));
        assert_eq!(crate::mgp::Extension::STANDARD.len(), 9);
    }

    #[test]
    fn eras() {
        use crate::mcp::Era::{Legacy, Modern};
        let eras = |name| lookup(name).map(|info| (info.is_in_era(Legacy), info.is_in_era(Modern)));
        assert_eq!(eras("initialize"), Some((true, false)));
        assert_eq!(eras("server/discover"), Some((false, true)));
        assert_eq!(eras("mgp/health/ping"), Some((true, true)));
    }
}
