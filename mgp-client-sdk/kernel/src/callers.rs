//! The connected clients. Through the context of a client, the kernel sends the messages that belong to none of its
//! calls: notifications, log messages and questions of servers.

use std::collections::HashMap;
use std::sync::Arc;

use mgp_types::Timestamp;
use mgp_types::mcp::{Era, LogLevel, SetLevelParams};
use mgp_types::method::{Initialized, Kind, LoggingSetLevel};
use mgp_types::service::{
    Authority, Call, CallKey, CallerAccess, Context, CredentialGrant, Extensions, Outlet,
    Principal, ScopeId, ScopeKind, TenantId,
};
use mgp_types::sync::Mutex;

use super::clients::{ClientGuard, ClientTransport, Clients};

/// The maximum number of callers in the table. The kernel serves further callers too, but sends them only messages that
/// belong to their calls.
const MAX_CALLERS: usize = 65_536;

/// The sessions of legacy clients, and the connections of modern clients. A modern connection is added at its first
/// call.
#[derive(Clone, Default)]
pub(super) struct Callers {
    by_scope: Arc<Mutex<HashMap<ScopeId, Caller>>>,
    clients: Clients,
}

mgp_types::opaque_debug!(Callers);

struct Caller {
    cx: Context,
    since: Timestamp,
    /// `true` if the kernel sends the caller messages that belong to no call. Modern clients instead request such
    /// messages with each call.
    is_notified: bool,
    /// The guard that keeps an HTTP session in the list of connected clients; `None` for a connection.
    _present: Option<ClientGuard>,
    /// The lowest log level for which the caller requested messages.
    level: Option<LogLevel>,
}

/// A change of a caller's state, caused by one of its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallerChange {
    None,
    /// A client has connected.
    Connected,
    /// A client requested a different log level.
    LogLevel,
}

impl Callers {
    /// Updates the table of callers from a call, e.g. adds its caller, and returns what changed about the caller.
    pub(super) fn note(&self, call: &Call) -> CallerChange {
        if call.tells::<Initialized>() {
            if self.insert(call.cx(), true) {
                return CallerChange::Connected;
            }
        } else if call.is::<LoggingSetLevel>()
            && let Ok(params) = call.params().get::<SetLevelParams>()
            && let Some(caller) = self.by_scope.lock().get_mut(&call.cx().scope.id())
        {
            caller.level = Some(params.level);
            return CallerChange::LogLevel;
        } else if call.cx().caller.era == Era::Modern && call.kind() == Kind::Request {
            self.note_modern(call.cx());
        }
        CallerChange::None
    }

    fn note_modern(&self, cx: &Context) {
        if cx.scope.kind() != ScopeKind::Connection {
            self.clients.note_call(&cx.principal);
        } else if !self.by_scope.lock().contains_key(&cx.scope.id()) {
            self.insert(cx, false);
        }
    }

    /// Adds a caller. Returns `false` if the caller was known already, e.g. because a client repeats `initialized`, or
    /// if there are too many callers. A connection that used the modern era before counts as new when its client first
    /// sends `initialized`.
    fn insert(&self, cx: &Context, is_notified: bool) -> bool {
        let id = cx.scope.id();
        let mut own = cx.clone();
        own.key = CallKey::next();
        own.outlet = Outlet::none();
        own.wire_id = None;
        own.extensions = Extensions::default();
        // Keep the caller's credentials, because they limit what the caller sees. Ignore the time when the token that
        // opened an HTTP session expires: the client renews the token, and the server checks the current token for each
        // stream of the session.
        if let Some(grant) = cx.extensions.get::<CredentialGrant>() {
            let is_renewed = cx.scope.kind() == ScopeKind::Session && grant.key().is_none();
            own.extensions.insert(if is_renewed {
                CredentialGrant::new(grant.permissions().iter().cloned(), || true)
            } else {
                grant.clone()
            });
        }
        if own.caller.era == Era::Legacy {
            own.caller_access = CallerAccess::Peer(own.peer.clone());
        }
        let mut table = self.by_scope.lock();
        if let Some(known) = table.get_mut(&id) {
            // If the client of a known connection used the modern era before, treat the connection as new.
            let is_new = is_notified && !known.is_notified;
            if is_new {
                (known.cx, known.is_notified) = (own, true);
            }
            return is_new;
        }
        if table.len() >= MAX_CALLERS {
            tracing::warn!(MAX_CALLERS, "too many clients; this one gets no notifications");
            return false;
        }
        let is_session = cx.scope.kind() == ScopeKind::Session;
        let present =
            is_session.then(|| self.clients.add(cx.principal.clone(), ClientTransport::Http));
        let since = Timestamp::now();
        table.insert(id, Caller { cx: own, since, is_notified, _present: present, level: None });
        drop(table);
        let by_scope = Arc::downgrade(&self.by_scope);
        let remove = move || {
            if let Some(by_scope) = by_scope.upgrade() {
                // Drop the entry only after the lock is released, because the entry may hold the last handle of a
                // connection.
                let removed = by_scope.lock().remove(&id);
                drop(removed);
            }
        };
        cx.scope.on_end(remove).keep();
        true
    }

    /// Returns the contexts of the callers that pass a filter and receive messages that belong to no call.
    pub(super) fn all(&self, filter: impl Fn(&Context) -> bool) -> Vec<Context> {
        let table = self.by_scope.lock();
        let notified = table.values().filter(|caller| caller.is_notified);
        notified.filter(|caller| filter(&caller.cx)).map(|caller| caller.cx.clone()).collect()
    }

    /// Returns all sessions and connections with their start times, the oldest first.
    pub(super) fn sessions(&self) -> Vec<(Context, Timestamp)> {
        let table = self.by_scope.lock();
        let mut all: Vec<_> =
            table.values().map(|caller| (caller.cx.clone(), caller.since.clone())).collect();
        drop(table);
        all.sort_by(|(_, one), (_, other)| one.as_str().cmp(other.as_str()));
        all
    }

    /// Ends the HTTP sessions of a removed tenant, with their running calls.
    pub(super) fn end_sessions(&self, tenant: &TenantId) {
        let sessions: Vec<_> = {
            let table = self.by_scope.lock();
            let of_tenant = table.values().filter(|caller| {
                let Context { scope, principal, .. } = &caller.cx;
                scope.kind() == ScopeKind::Session && principal.tenant() == tenant
            });
            of_tenant.map(|caller| caller.cx.peer.clone()).collect()
        };
        for session in sessions {
            session.close("the tenant was removed");
        }
    }

    /// Returns whether any client that is not an operator is connected or has called recently.
    pub(super) fn has_agent(&self) -> bool {
        let is_agent = |principal: &Principal| principal.authority() != Authority::Operator;
        self.by_scope.lock().values().any(|caller| is_agent(&caller.cx.principal))
            || self.clients.recent().iter().any(|client| is_agent(&client.principal))
    }

    pub(super) fn clients(&self) -> &Clients {
        &self.clients
    }

    /// Returns the lowest log level that any of the callers that pass a filter has requested.
    pub(super) fn level(&self, filter: impl Fn(&Context) -> bool) -> Option<LogLevel> {
        let table = self.by_scope.lock();
        table.values().fold(None::<LogLevel>, |lowest, caller| match caller.level {
            // Apply the filter last, because it decides about the access of the caller, which takes time.
            Some(level) if lowest.is_none_or(|known| level < known) && filter(&caller.cx) => {
                Some(level)
            }
            _ => lowest,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use mgp_types::service::{Reply, Scope, Stack, mock};

    use super::*;

    #[tokio::test]
    async fn a_repeated_initialized_changes_nothing() {
        let callers = Callers::default();
        let notes = callers.clone();
        let changes: Arc<Mutex<Vec<CallerChange>>> = Arc::default();
        let seen = Arc::clone(&changes);
        let mut client = mock::client(Stack::from_fn(move |call| {
            seen.lock().push(notes.note(&call));
            async { Ok(Reply::empty()) }
        }));
        client.notify("notifications/initialized", "{}").await.unwrap();
        client.request("logging/setLevel", r#"{"level":"error"}"#).await.unwrap();
        for _ in 0..10 {
            client.notify("notifications/initialized", "{}").await.unwrap();
        }
        let changes = changes.lock().clone();
        assert_eq!(changes[..2], [CallerChange::Connected, CallerChange::LogLevel]);
        assert_eq!(changes[2..], [CallerChange::None; 10]);
        assert_eq!(callers.level(|_| true), Some(LogLevel::Error), "it is still the same caller");
        client.cx.scope.end();
        assert!(callers.all(|_| true).is_empty());
    }

    #[tokio::test]
    async fn the_lowest_log_level_needs_no_decision_about_callers_that_cannot_lower_it() {
        let callers = Callers::default();
        let mut clients = Vec::new();
        for sets_level in [false, true, true, true] {
            let notes = callers.clone();
            let mut client = mock::client(Stack::from_fn(move |call| {
                notes.note(&call);
                async { Ok(Reply::empty()) }
            }));
            client.notify("notifications/initialized", "{}").await.unwrap();
            if sets_level {
                client.request("logging/setLevel", r#"{"level":"debug"}"#).await.unwrap();
            }
            clients.push(client);
        }
        let decisions = Cell::new(0);
        let decide = |_: &Context| {
            decisions.set(decisions.get() + 1);
            true
        };
        assert_eq!(callers.level(decide), Some(LogLevel::Debug));
        assert_eq!(decisions.get(), 1);
    }

    #[tokio::test]
    async fn a_session_receives_messages_after_its_first_token_has_expired() {
        let callers = Callers::default();
        for (key, is_admitted) in [(None, true), (Some("key"), false)] {
            let notes = callers.clone();
            let mut client = mock::client(Stack::from_fn(move |call| {
                notes.note(&call);
                async { Ok(Reply::empty()) }
            }));
            let ended = CredentialGrant::new(["tools.list"], || false);
            let ended = match key {
                Some(key) => ended.of_key(key),
                None => ended,
            };
            client.cx.scope = Scope::new(ScopeKind::Session);
            client.cx.extensions.insert(ended);
            client.notify("notifications/initialized", "{}").await.unwrap();
            let sees = |cx: &Context| {
                let grant = cx.extensions.get::<CredentialGrant>();
                grant.is_some_and(|grant| grant.is_valid() && grant.permits("tools.list"))
            };
            assert_eq!(callers.all(sees).len(), usize::from(is_admitted), "{key:?}");
            client.cx.scope.end();
        }
    }
}
