//! From the notifications of a server to the clients that see it.

use std::time::SystemTime;

use mgp_client_sdk::ServerChange;
use mgp_security::Access;
use mgp_server_sdk::ChangeNotifier;
use mgp_types::mcp::LogLevel;
use mgp_types::method::{Request as _, RootsList};
use mgp_types::service::{CallerAccess, Context, Principal, ServerId};

use super::refresh_queue::{ListGroup, StaleLists};
use super::subscriptions::{self, Source};
use crate::callers::Callers;

/// Handles the notifications of one server; keeps no server alive.
///
/// An `owner` is the principal that an isolated instance belongs to; the shared instance has none.
#[derive(Clone)]
pub(crate) struct ServerNotifier {
    pub(super) server: ServerId,
    pub(super) access: Access,
    pub(super) stale: StaleLists,
    pub(super) notifications: ChangeNotifier,
    pub(super) callers: Callers,
}

impl ServerNotifier {
    pub(super) fn server(&self) -> &ServerId {
        &self.server
    }

    /// Handles a change that the server announced.
    pub(super) fn handle(&self, change: &ServerChange, source: &Source) {
        match change {
            ServerChange::Tools => self.stale.mark(&self.server, &[ListGroup::Tools]),
            ServerChange::Resources => self.stale.mark(&self.server, &[ListGroup::Resources]),
            ServerChange::Prompts => self.stale.mark(&self.server, &[ListGroup::Prompts]),
            ServerChange::Resource(uri) => {
                self.resource_updated(&subscriptions::key(source, uri));
            }
            _ => {}
        }
    }

    /// Notifies the subscribers of a resource that still see the server.
    pub(super) fn resource_updated(&self, key: &str) {
        self.notifications.updated(key, |principal| self.is_seen_by(principal));
    }

    /// Finds the client to ask a question that belongs to no call: `roots/list` if exactly one client can answer it.
    pub(super) fn find_unattributed(
        &self,
        method: &str,
        owner: Option<&Principal>,
    ) -> Option<Context> {
        if method != RootsList::METHOD {
            return None;
        }
        let mut askable = self.clients(owner);
        askable.retain(|cx| {
            cx.caller.accepts.roots && !matches!(cx.caller_access, CallerAccess::Unavailable)
        });
        if askable.len() == 1 { askable.pop() } else { None }
    }

    /// Returns the clients that see the server, of an isolated instance those of its owner.
    pub(super) fn clients(&self, owner: Option<&Principal>) -> Vec<Context> {
        self.callers
            .all(|cx| owner.is_none_or(|owner| *owner == cx.principal) && self.is_visible_to(cx))
    }

    /// Returns the lowest log level that any client asked for that sees the server.
    pub(super) fn wanted_level(&self, owner: Option<&Principal>) -> Option<LogLevel> {
        self.callers
            .level(|cx| owner.is_none_or(|owner| *owner == cx.principal) && self.is_visible_to(cx))
    }

    fn is_visible_to(&self, cx: &Context) -> bool {
        self.access.sees_server(cx, &self.server).is_ok()
    }

    fn is_seen_by(&self, principal: &Principal) -> bool {
        self.access.decide(principal, Some(&self.server), None, SystemTime::now()).is_allowed()
    }
}
