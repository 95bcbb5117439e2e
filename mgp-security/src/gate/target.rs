//! Determines which part of a server a message uses.

use mgp_types::RpcError;
use mgp_types::method::{
    CompletionComplete, PromptsGet, PromptsList, Request, ResourcesDirectoryRead, ResourcesList,
    ResourcesRead, ResourcesSubscribe, ResourcesTemplatesList, SkillsGet, SkillsList,
    SubscriptionsListen, ToolsCall, ToolsList, ToolsValidate,
};
use mgp_types::service::{Call, Target};

/// The part of a server that a message uses.
///
/// Notifications have a target like requests, because a server might run them as well.
pub(super) enum CallTarget<'a> {
    Tool(&'a str),
    /// A tool call without the name of a tool.
    Unnamed,
    /// A request to check arguments. It contains the tool's name in a member that is not parsed yet.
    Validation,
    /// The list of the server's tools.
    Tools,
    /// Something that belongs to the server as a whole, e.g. a resource.
    Server,
    /// A list of items that belong to the server as a whole, with the name of the member that contains them.
    List(&'static str),
    Other,
}

impl<'a> CallTarget<'a> {
    pub(super) fn of(call: &'a Call) -> Self {
        match call.params().target() {
            Some(Target::Tool(name)) => Self::Tool(name),
            _ if call.is::<SubscriptionsListen>() && watches_resources(call) => Self::Server,
            _ => Self::of_method(call.method().as_str()),
        }
    }

    fn of_method(method: &str) -> Self {
        match method {
            ToolsCall::METHOD => Self::Unnamed,
            ToolsList::METHOD => Self::Tools,
            ToolsValidate::METHOD => Self::Validation,
            ResourcesRead::METHOD
            | ResourcesDirectoryRead::METHOD
            | SkillsGet::METHOD
            | ResourcesSubscribe::METHOD
            | PromptsGet::METHOD
            | CompletionComplete::METHOD => Self::Server,
            ResourcesList::METHOD => Self::List("resources"),
            ResourcesTemplatesList::METHOD => Self::List("resourceTemplates"),
            PromptsList::METHOD => Self::List("prompts"),
            SkillsList::METHOD => Self::List("skills"),
            // All other messages are allowed; e.g. a caller who has lost access to a resource can still unsubscribe
            // from it. The test below lists the methods of these messages. Methods that are not in the table of
            // mgp-types are allowed too: the routers behind this gate refuse methods that they do not know.
            _ => Self::Other,
        }
    }
}

/// Returns the name of the tool in a request to check arguments.
pub(super) fn validated_tool(call: &Call) -> Result<String, RpcError> {
    Ok(call.params().get::<<ToolsValidate as Request>::Params>()?.name)
}

/// Returns whether a request opens a stream that reports changes of resources; also `true` if its params cannot be
/// parsed.
fn watches_resources(call: &Call) -> bool {
    let params = call.params().get::<<SubscriptionsListen as Request>::Params>();
    params.map_or(true, |params| !params.notifications.resource_subscriptions.is_empty())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use mgp_types::method::{Direction, methods};

    use super::*;

    /// The markers of the messages to a server that pass the gate without a check. Add a method only if it uses no
    /// tool, resource or prompt of a server, or if the layer that answers it checks the access itself.
    const UNCHECKED: &[&str] = &[
        "AccessGrant",
        "AccessQuery",
        "AccessRevoke",
        "AuditNotification",
        "CallbackRespond",
        "Cancelled",
        "DiscoveryDeregister",
        "DiscoveryList",
        "DiscoveryRegister",
        "EventNotification",
        "EventsChannels",
        "EventsReplay",
        "EventsSubscribe",
        "EventsUnsubscribe",
        "HealthPing",
        "HealthStatusGet",
        "Initialize",
        "Initialized",
        "LifecycleShutdown",
        "LoggingSetLevel",
        "ManifestGet",
        "PermissionAwait",
        "PermissionGrant",
        "PermissionRequest",
        "PermissionResponse",
        "PermissionsCheck",
        "Ping",
        "Progress",
        "ResourcesUnsubscribe",
        "RootsListChanged",
        "ScopesNegotiate",
        "ScopesRevoke",
        "ServerDiscover",
        "ServersRecommend",
        "StreamCancel",
        "StreamGap",
        "StreamPace",
        "SubscriptionsListen",
        "TasksCancel",
        "TasksGet",
        "TasksList",
        "TasksResult",
        "TasksStatus",
        "TasksUpdate",
        "ToolsDiscover",
        "ToolsRequest",
        "ToolsSession",
        "ToolsSessionEvict",
        "TransactionBegin",
        "TransactionCommit",
        "TransactionRollback",
        "TxBegin",
        "TxCommit",
        "TxRollback",
    ];

    #[test]
    fn every_message_to_a_server_is_checked_unless_it_is_listed_as_unchecked() {
        // Leave out the methods that only a kernel has: they are for operators, and no server gets them.
        let to_server = methods()
            .filter(|info| info.direction != Direction::ToClient && !info.is_kernel_only());
        let unchecked = to_server
            .filter(|info| matches!(CallTarget::of_method(info.name), CallTarget::Other))
            .map(|info| info.marker);
        let expected: BTreeSet<&str> = UNCHECKED.iter().copied().collect();
        assert_eq!(unchecked.collect::<BTreeSet<_>>(), expected);
    }
}
