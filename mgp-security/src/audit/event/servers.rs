//! Events of servers: connections and dropped events (MGP §11).

use std::time::Duration;

use mgp_types::mgp::{
    Actor, AuditResult, EventType, Extension, ExtensionSet, MgpVersion, TrustLevel,
};
use mgp_types::service::{PeerInfo, ServerId};

use super::{Event, EventActor};

impl Event {
    /// Creates `SERVER_CONNECTED`: the handshake with a server is complete; the details hold the negotiated values.
    pub fn server_connected(server: &ServerId, facts: &PeerInfo) -> Self {
        let names = |set: ExtensionSet| set.iter().map(Extension::as_str).collect::<Vec<_>>();
        let event = Self::new(EventType::ServerConnected, Actor::kernel(), AuditResult::Success)
            .server(Some(server))
            .words("revision", Some(facts.revision.as_str()));
        let event = match facts.mgp {
            Some(extensions) => event.detail("extensions", &names(extensions)),
            None => event,
        };
        // These values are unverified claims of the server. So shorten them; no decision depends on them.
        event
            .words("mgp_version", facts.mgp_version.as_ref().map(MgpVersion::as_str))
            .words("claimed_server_id", facts.claimed_server_id.as_deref())
            .words(
                "claimed_trust_level",
                facts.claimed_trust_level.as_ref().map(TrustLevel::as_str),
            )
    }

    /// Creates `SERVER_CONNECTED` with a failure: the server could not be started or reached, or the handshake failed.
    pub fn server_unreachable(server: &ServerId, cause: &str) -> Self {
        Self::new(EventType::ServerConnected, Actor::kernel(), AuditResult::Failure)
            .server(Some(server))
            .cause(cause)
    }

    /// Creates `SERVER_DISCONNECTED`: a connection was closed.
    pub fn server_disconnected(server: &ServerId, cause: &str) -> Self {
        Self::new(EventType::ServerDisconnected, Actor::kernel(), AuditResult::Success)
            .server(Some(server))
            .cause(cause)
    }

    /// Creates `SERVER_DISCONNECTED` with a failure: a connection was lost.
    pub fn server_lost(server: &ServerId, cause: &str) -> Self {
        Self::new(EventType::ServerDisconnected, Actor::kernel(), AuditResult::Failure)
            .server(Some(server))
            .cause(cause)
    }

    /// Adds that the server will not be restarted any more, because it failed again after `restarts` restarts within
    /// the time `within` (MGP §11.5).
    pub fn restart_limit_exceeded(self, restarts: u32, within: Duration) -> Self {
        self.detail("restart_limit_exceeded", &true)
            .detail("restarts", &restarts)
            .detail("window_secs", &within.as_secs())
    }

    /// Creates `dev.cloto.administered`: an operator called a kernel method that changes something. The change itself
    /// is recorded by other events.
    pub fn administered(
        by: impl Into<EventActor>,
        server: Option<&ServerId>,
        method: &str,
    ) -> Self {
        Self::own("administered", by, AuditResult::Success)
            .server(server)
            .words("method", Some(method))
    }

    /// Creates `dev.cloto.records_rejected`: complete lines at the end of a log failed verification and were cut off.
    pub fn records_rejected(log: &str, lines: u64, bytes: u64) -> Self {
        Self::own("records_rejected", Actor::kernel(), AuditResult::Failure)
            .words("log", Some(log))
            .detail("count", &lines)
            .detail("bytes", &bytes)
    }

    /// Creates `dev.cloto.records_lost`: the last acknowledged records of a log, which were not synced to the disk yet,
    /// were missing when the log was opened.
    pub fn records_lost(log: &str, count: u64) -> Self {
        Self::own("records_lost", Actor::kernel(), AuditResult::Failure)
            .words("log", Some(log))
            .detail("count", &count)
    }

    /// Creates `dev.cloto.changes_lost`: the store lost changes, although a log still has the events about them.
    pub fn changes_lost(log: &str, count: u64) -> Self {
        Self::own("changes_lost", Actor::kernel(), AuditResult::Failure)
            .words("log", Some(log))
            .detail("count", &count)
    }

    /// Creates `dev.cloto.events_dropped`: a server sent more events than the limits allow, or too large events.
    pub fn events_dropped(server: &ServerId, count: u64, cause: &str) -> Self {
        Self::own("events_dropped", Actor::server(server), AuditResult::Blocked)
            .server(Some(server))
            .detail("count", &count)
            .cause(cause)
    }
}
