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
    /// A call that does work. The drain waits for it, and once the drain has begun, new ones are refused.
    Counted,
    /// A stream that lasts as long as its caller wants. The drain does not wait for it, and once the drain has begun,
    /// new ones are refused.
    LongLived,
    /// A status request, or a message that helps running calls to complete. It is always admitted.
    Always,
}

impl Admission {
    pub(super) fn of(call: &Call) -> Self {
        // Tool calls are the common case, and the cheapest to recognise.
        if call.tool().is_some() {
            return Self::Counted;
        }
        if call.kind() == Kind::Notification {
            return Self::Always;
        }
        match call.method().as_str() {
            SubscriptionsListen::METHOD => Self::LongLived,
            // With these, a client that connects late finds out that the server is draining.
            Initialize::METHOD
            | ServerDiscover::METHOD
            | Ping::METHOD
            | HealthPing::METHOD
            | HealthStatusGet::METHOD
            | LifecycleShutdown::METHOD
            // Running calls may depend on these.
            | TasksGet::METHOD
            | TasksResult::METHOD
            | TasksList::METHOD
            | TasksUpdate::METHOD
            | PermissionResponse::METHOD
            | PermissionGrant::METHOD
            | CallbackRespond::METHOD
            // These end a running task or call.
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
/// The layer that asked the questions has already verified the state that the call carries.
pub(super) fn continues_round(call: &Call) -> bool {
    matches!(call.cx().caller_access, CallerAccess::Channel(_))
        && call.params().request_state().is_some()
}
