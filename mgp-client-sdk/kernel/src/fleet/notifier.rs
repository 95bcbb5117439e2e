//! Handles the notifications of a server: marks changed lists as stale, and forwards updates of resources and changes
//! of the server's state to the clients that see the server.

use std::time::{Duration, SystemTime};

use mgp_client_sdk::ServerChange;
use mgp_lifecycle::Transition;
use mgp_security::Access;
use mgp_server_sdk::ChangeNotifier;
use mgp_types::mcp::LogLevel;
use mgp_types::method::{Request as _, RootsList};
use mgp_types::service::{CallerAccess, Context, Principal, ServerId};

use super::refresh_queue::{ListGroup, StaleLists};
use super::subscriptions::{ResourceSubscriptions, Source};
use crate::callers::Callers;
use crate::events::KernelEvents;

/// The maximum time that the kernel waits for clients to accept the notification about a server's new state.
const STATE_TIMEOUT: Duration = Duration::from_secs(5);

/// The handler of the notifications of one server. It does not keep the server alive.
///
/// In its methods, `owner` is the principal that owns the isolated instance; `None` means the shared instance.
#[derive(Clone)]
pub(crate) struct ServerNotifier {
    pub(super) server: ServerId,
    pub(super) access: Access,
    pub(super) stale: StaleLists,
    pub(super) subscriptions: ResourceSubscriptions,
    pub(super) notifications: ChangeNotifier,
    pub(super) callers: Callers,
    pub(super) events: KernelEvents,
}

impl ServerNotifier {
    pub(super) fn server(&self) -> &ServerId {
        &self.server
    }

    /// Handles a notification of the server: marks a changed list as stale, or notifies the subscribers of an updated
    /// resource.
    pub(super) fn handle(&self, change: &ServerChange, source: &Source) {
        match change {
            ServerChange::Tools => self.stale.mark(&self.server, &[ListGroup::Tools]),
            ServerChange::Resources => self.stale.mark(&self.server, &[ListGroup::Resources]),
            ServerChange::Prompts => self.stale.mark(&self.server, &[ListGroup::Prompts]),
            ServerChange::Resource(uri) => {
                for key in self.subscriptions.keys(source, uri) {
                    self.resource_updated(&key);
                }
            }
            _ => {}
        }
    }

    /// Notifies the subscribers of a resource, except those that do not see the server any more.
    pub(super) fn resource_updated(&self, key: &str) {
        self.subscriptions.count_change(key);
        self.notifications.updated(key, |principal| self.is_seen_by(principal));
    }

    /// Publishes the server's new state as an event.
    pub(super) fn publish_state(&self, change: &Transition) {
        self.events.server_state(&self.server, change);
    }

    /// Notifies the clients that see the server of its new state, within a bounded time.
    pub(super) async fn state_changed(&self, change: &Transition) {
        let params = change.to_params(Some(&self.server));
        let sent =
            self.notifications.state_changed(&params, |principal| self.is_seen_by(principal));
        // Stop waiting after a while, so that a client that does not read does not delay the next notifications to
        // others.
        let _ = tokio::time::timeout(STATE_TIMEOUT, sent).await;
    }

    /// Returns the client that can answer a request that the server makes outside of any call. Returns `None` unless
    /// the request is `roots/list` and exactly one client can answer it.
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

    /// Returns the clients that see the server, or only those of the owner if there is one.
    pub(super) fn clients(&self, owner: Option<&Principal>) -> Vec<Context> {
        self.callers
            .all(|cx| owner.is_none_or(|owner| *owner == cx.principal) && self.is_visible_to(cx))
    }

    /// Returns the lowest of the log levels that the clients that see the server have requested; `None` if no client
    /// has requested a level.
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
