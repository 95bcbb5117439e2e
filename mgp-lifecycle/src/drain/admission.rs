//! How each kind of call is treated while a server drains.

use mgp_types::method::{
    AccessRevoke, CallbackRespond, EventsUnsubscribe, HealthPing, HealthStatusGet, Initialize,
    LifecycleShutdown, PermissionGrant, PermissionResponse, Ping, Request, ResourcesUnsubscribe,
    ServerDiscover, StreamCancel, SubscriptionsListen, TasksCancel, TasksGet, TasksList,
    TasksResult, TasksUpdate,
};
use mgp_types::service::{Call, CallerAccess, Kind};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// A call that does work: the drain waits for it; refused once the drain has begun.
    Counted,
    /// A stream that lasts as long as its caller likes: the drain does not wait for it; refused once the drain has
    /// begun.
    LongLived,
    /// A status request, or a message that helps running calls to complete: always passes.
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
            // From these a client that connects late learns that the server is draining.
            Initialize::METHOD
            | ServerDiscover::METHOD
            | Ping::METHOD
            | HealthPing::METHOD
            | HealthStatusGet::METHOD
            | LifecycleShutdown::METHOD
            // Running calls may wait for these.
            | TasksGet::METHOD
            | TasksResult::METHOD
            | TasksList::METHOD
            | TasksUpdate::METHOD
            | PermissionResponse::METHOD
            | PermissionGrant::METHOD
            | CallbackRespond::METHOD
            // These end something.
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
