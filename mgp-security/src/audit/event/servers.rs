//! Events of servers: connections and registrations, and what our own log lost (MGP §11, §15).
//!
//! Applies to: both.

use std::time::Duration;

use mgp_types::mgp::{Actor, AuditResult, EventType, Extension, ExtensionSet};
use mgp_types::service::{Facts, ServerId};

use super::{By, Event};

impl Event {
    /// `SERVER_CONNECTED`: the handshake with a server is done, and this is what it came to.
    pub fn server_connected(server: &ServerId, facts: &Facts) -> Self {
        let names = |set: ExtensionSet| set.iter().map(Extension::as_str).collect::<Vec<_>>();
        let event = Self::new(EventType::ServerConnected, Actor::kernel(), AuditResult::Success)
            .server(Some(server))
            .words("revision", Some(facts.revision.as_str()));
        let event = match facts.mgp {
            Some(extensions) => event.detail("extensions", &names(extensions)),
            None => event,
        };
        // What a server says of itself is shown as that, and cut: it is no key anywhere.
        event.words("claimed_server_id", facts.claimed_server_id.as_deref())
    }

    /// `SERVER_CONNECTED` that failed: the server could not be started, reached or understood.
    pub fn server_unreachable(server: &ServerId, cause: &str) -> Self {
        Self::new(EventType::ServerConnected, Actor::kernel(), AuditResult::Failure)
            .server(Some(server))
            .cause(cause)
    }

    /// `SERVER_DISCONNECTED`: a connection ended as it should.
    pub fn server_disconnected(server: &ServerId, cause: &str) -> Self {
        Self::new(EventType::ServerDisconnected, Actor::kernel(), AuditResult::Success)
            .server(Some(server))
            .cause(cause)
    }

    /// `SERVER_DISCONNECTED`: a connection was lost.
    pub fn server_lost(server: &ServerId, cause: &str) -> Self {
        Self::new(EventType::ServerDisconnected, Actor::kernel(), AuditResult::Failure)
            .server(Some(server))
            .cause(cause)
    }

    /// Adds that the server is not started again: restarted so often within this time, it failed once more (§11.5).
    pub fn restart_limit_exceeded(self, restarts: u32, within: Duration) -> Self {
        self.detail("restart_limit_exceeded", &true)
            .detail("restarts", &restarts)
            .detail("window_secs", &within.as_secs())
    }

    /// `dev.cloto.administered`: an operator called a method of a kernel that changes something; what came of it, other
    /// events tell.
    pub fn administered(by: impl Into<By>, server: Option<&ServerId>, method: &str) -> Self {
        Self::own("administered", by, AuditResult::Success)
            .server(server)
            .words("method", Some(method))
    }

    /// `dev.cloto.server_registered`: a server was registered at run time; the result is that of the registration.
    pub fn server_registered(by: impl Into<By>, server: &ServerId, result: AuditResult) -> Self {
        Self::own("server_registered", by, result).server(Some(server))
    }

    /// `dev.cloto.server_deregistered`: a registered server was removed.
    pub fn server_deregistered(by: impl Into<By>, server: &ServerId) -> Self {
        Self::own("server_deregistered", by, AuditResult::Success).server(Some(server))
    }

    /// `dev.cloto.events_dropped`: a server sent more events, or larger ones, than are taken from it.
    pub fn events_dropped(server: &ServerId, count: u64, cause: &str) -> Self {
        Self::own("events_dropped", Actor::server(server), AuditResult::Blocked)
            .server(Some(server))
            .detail("count", &count)
            .cause(cause)
    }
}
