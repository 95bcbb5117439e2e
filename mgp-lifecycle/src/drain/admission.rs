//! The rules for admitting each kind of call while a server drains.

use mgp_types::method::{
    AccessRevoke, CallbackRespond, EventsUnsubscribe, HealthPing, HealthStatusGet, Initialize,
    LifecycleShutdown, PermissionGrant, PermissionResponse, Ping, Request, ResourcesUnsubscribe,
    ServerDiscover, StreamCancel, SubscriptionsListen, TasksCancel, TasksGet, TasksList,
    TasksResult, TasksUpdate,
};
use mgp_types::service::{Call, CallerAccess, Kind};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// A call that does work. The drain waits for running calls, and refuses new calls.
    Counted,
    /// A stream that lasts as long as its caller wants. The drain does not wait for open streams, but refuses new
    /// streams.
    LongLived,
    /// A status request, or a message that helps running calls to complete. It is always admitted.
    Always,
}

impl Admission {
    pub(super) fn of(call: &Call) -> Self {
        // Check tool calls first, because they are the most frequent calls and the cheapest to recognise.
        if call.tool().is_some() {
            return Self::Counted;
        }
        if call.kind() == Kind::Notification {
            return Self::Always;
        }
        match call.method().as_str() {
            SubscriptionsListen::METHOD => Self::LongLived,
            // A client that connects during the drain needs these methods to find out that the server is draining.
            Initialize::METHOD
            | ServerDiscover::METHOD
            | Ping::METHOD
            | HealthPing::METHOD
            | HealthStatusGet::METHOD
            | LifecycleShutdown::METHOD
            // Callers use these methods to get the results of running tasks, and to send answers and decisions for
            // which running calls wait.
            | TasksGet::METHOD
            | TasksResult::METHOD
            | TasksList::METHOD
            | TasksUpdate::METHOD
            | PermissionResponse::METHOD
            | PermissionGrant::METHOD
            | CallbackRespond::METHOD
            // These methods end something, e.g. a task or a subscription, so they do not prolong the drain.
            | TasksCancel::METHOD
            | StreamCancel::METHOD
            | AccessRevoke::METHOD
            | ResourcesUnsubscribe::METHOD
            | EventsUnsubscribe::METHOD => Self::Always,
            _ => Self::Counted,
        }
    }
}

/// Returns whether a call is a further round of an earlier call: the client sends it to answer the server's
/// questions.
///
/// The call's `request_state` is not checked here, because the layer that asked the questions has already verified it.
pub(super) fn continues_round(call: &Call) -> bool {
    matches!(call.cx().caller_access, CallerAccess::Channel(_))
        && call.params().request_state().is_some()
}
