//! What becomes of a call while a server drains.
//!
//! Applies to: inbound.

use mgp_types::method::{
    AccessRevoke, CallbackRespond, EventsUnsubscribe, HealthPing, HealthStatusGet, Initialize,
    LifecycleShutdown, PermissionGrant, PermissionResponse, Ping, Request, ResourcesUnsubscribe,
    ServerDiscover, StreamCancel, SubscriptionsListen, TasksCancel, TasksGet, TasksList,
    TasksResult, TasksUpdate,
};
use mgp_types::service::{Asking, Call, Kind};

/// The three ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// It is work: counted, and refused where it comes too late.
    Counted,
    /// It lasts as long as its caller likes: refused where it comes too late, and not waited for.
    Lasting,
    /// It says how things are, or helps what runs to its end: it passes at any time.
    Passing,
}

impl Way {
    /// The way of a call.
    pub(super) fn of(call: &Call) -> Self {
        // The rule, and the cheapest to tell.
        if call.tool().is_some() {
            return Self::Counted;
        }
        if call.kind() == Kind::Notification {
            return Self::Passing;
        }
        match call.method().as_str() {
            SubscriptionsListen::METHOD => Self::Lasting,
            // Who comes late may learn that it is late.
            Initialize::METHOD
            | ServerDiscover::METHOD
            | Ping::METHOD
            | HealthPing::METHOD
            | HealthStatusGet::METHOD
            | LifecycleShutdown::METHOD
            // What runs may wait for these.
            | TasksGet::METHOD
            | TasksResult::METHOD
            | TasksList::METHOD
            | TasksUpdate::METHOD
            | PermissionResponse::METHOD
            | PermissionGrant::METHOD
            | CallbackRespond::METHOD
            // These take something back.
            | TasksCancel::METHOD
            | StreamCancel::METHOD
            | AccessRevoke::METHOD
            | ResourcesUnsubscribe::METHOD
            | EventsUnsubscribe::METHOD => Self::Passing,
            _ => Self::Counted,
        }
    }
}

/// Whether it is a later round of a call that began before: its answers were asked for.
///
/// That the state it brings is ours was seen by the layer that opened the round.
pub(super) fn goes_on(call: &Call) -> bool {
    matches!(call.cx().asking, Asking::Via(_)) && call.params().request_state().is_some()
}
