//! The clients that stay connected above: whom a server may ask that has no call in flight, and who hears what belongs to
//! no call (DESIGN §5).
//!
//! Applies to: inbound.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mgp_types::Timestamp;
use mgp_types::mcp::{Era, LogLevel, SetLevelParams};
use mgp_types::method::{Initialized, Kind, LoggingSetLevel};
use mgp_types::service::{
    Asking, Call, CallKey, Context, Extensions, Outlet, Pass, ScopeId, ScopeKind,
};

use super::clients::{Carrier, Clients, Present};

/// How many are known; further ones are served, and hear nothing that belongs to no call of theirs.
const CALLERS: usize = 65_536;

/// The legacy sessions, and the connections of modern clients, which are known by their calls only.
#[derive(Clone, Default)]
pub(super) struct Callers {
    all: Arc<Mutex<HashMap<ScopeId, Caller>>>,
    clients: Clients,
}

struct Caller {
    cx: Context,
    since: Timestamp,
    /// Whether it is told what belongs to no call: a modern client asks for that with a call.
    hears: bool,
    /// A session over HTTP is present as long as it is known.
    _present: Option<Present>,
    /// The least grave log messages it asked for; none until it does.
    level: Option<LogLevel>,
}

/// What a call told of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Noted {
    Nothing,
    /// It is connected now.
    Joined,
    /// It wants another level of log messages.
    Level,
}

impl Callers {
    /// Notes what a call from above tells of its caller.
    pub(super) fn note(&self, call: &Call) -> Noted {
        if call.tells::<Initialized>() {
            if self.join(call.cx()) {
                return Noted::Joined;
            }
        } else if call.is::<LoggingSetLevel>()
            && let Ok(params) = call.params().get::<SetLevelParams>()
            && let Some(caller) = self.table().get_mut(&call.cx().scope.id())
        {
            caller.level = Some(params.level);
            return Noted::Level;
        } else if call.cx().caller.era == Era::Modern && call.kind() == Kind::Request {
            self.called(call.cx());
        }
        Noted::Nothing
    }

    /// Notes who stands behind a call that says all itself.
    fn called(&self, cx: &Context) {
        if cx.scope.kind() != ScopeKind::Connection {
            self.clients.called(&cx.principal);
        } else if !self.table().contains_key(&cx.scope.id()) {
            self.enter(cx, false);
        }
    }

    /// `true` for one that was not known yet: what a client says of itself once more changes nothing.
    fn join(&self, cx: &Context) -> bool {
        self.enter(cx, true)
    }

    fn enter(&self, cx: &Context, hears: bool) -> bool {
        let id = cx.scope.id();
        let mut own = cx.clone();
        own.key = CallKey::next();
        own.outlet = Outlet::none();
        own.wire_id = None;
        own.extensions = Extensions::default();
        // What it hears is narrowed by its credentials too.
        if let Some(pass) = cx.extensions.get::<Pass>() {
            own.extensions.insert(pass.clone());
        }
        if own.caller.era == Era::Legacy {
            own.asking = Asking::Peer(own.peer.clone());
        }
        let mut table = self.table();
        if let Some(known) = table.get_mut(&id) {
            // It spoke the other era before.
            let is_new = hears && !known.hears;
            if is_new {
                (known.cx, known.hears) = (own, true);
            }
            return is_new;
        }
        if table.len() >= CALLERS {
            tracing::warn!(CALLERS, "too many clients; this one hears only of its own calls");
            return false;
        }
        let is_session = cx.scope.kind() == ScopeKind::Session;
        let present = is_session.then(|| self.clients.enter(cx.principal.clone(), Carrier::Http));
        let since = Timestamp::now();
        table.insert(id, Caller { cx: own, since, hears, _present: present, level: None });
        drop(table);
        let all = Arc::downgrade(&self.all);
        let leave = move || {
            if let Some(all) = all.upgrade() {
                // Dropped after the lock: the last handle of a connection may go with it.
                let left = lock(&all).remove(&id);
                drop(left);
            }
        };
        cx.scope.on_end(leave).keep();
        true
    }

    /// All of whom something is so, of those who hear what belongs to no call.
    pub(super) fn all(&self, keep: impl Fn(&Context) -> bool) -> Vec<Context> {
        let table = self.table();
        let hear = table.values().filter(|caller| caller.hears);
        hear.filter(|caller| keep(&caller.cx)).map(|one| one.cx.clone()).collect()
    }

    /// All that have a session or a connection, with since when, the longest first.
    pub(super) fn lasting(&self) -> Vec<(Context, Timestamp)> {
        let table = self.table();
        let mut all: Vec<_> =
            table.values().map(|caller| (caller.cx.clone(), caller.since.clone())).collect();
        drop(table);
        all.sort_by(|(_, one), (_, other)| one.as_str().cmp(other.as_str()));
        all
    }

    /// Who is there.
    pub(super) fn clients(&self) -> &Clients {
        &self.clients
    }

    /// The least grave level that any of some asked for.
    pub(super) fn level(&self, of: impl Fn(&Context) -> bool) -> Option<LogLevel> {
        let table = self.table();
        table.values().filter(|caller| of(&caller.cx)).filter_map(|caller| caller.level).min()
    }

    fn table(&self) -> MutexGuard<'_, HashMap<ScopeId, Caller>> {
        lock(&self.all)
    }
}

fn lock(all: &Mutex<HashMap<ScopeId, Caller>>) -> MutexGuard<'_, HashMap<ScopeId, Caller>> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Callers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Callers({})", self.table().len())
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::service::{Reply, Stack, mock};

    use super::*;

    #[tokio::test]
    async fn who_says_again_that_it_is_there_changes_nothing() {
        let callers = Callers::default();
        let notes = callers.clone();
        let told: Arc<Mutex<Vec<Noted>>> = Arc::default();
        let hears = Arc::clone(&told);
        let mut client = mock::client(Stack::from_fn(move |call| {
            hears.lock().unwrap().push(notes.note(&call));
            async { Ok(Reply::empty()) }
        }));
        client.notify("notifications/initialized", "{}").await.unwrap();
        client.request("logging/setLevel", r#"{"level":"error"}"#).await.unwrap();
        for _ in 0..10 {
            client.notify("notifications/initialized", "{}").await.unwrap();
        }
        let told = told.lock().unwrap().clone();
        assert_eq!(told[..2], [Noted::Joined, Noted::Level]);
        assert_eq!(told[2..], [Noted::Nothing; 10]);
        assert_eq!(callers.level(|_| true), Some(LogLevel::Error), "it is the same caller still");
        client.cx.scope.end();
        assert!(callers.all(|_| true).is_empty());
    }
}
