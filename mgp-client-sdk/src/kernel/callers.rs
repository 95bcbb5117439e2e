//! The clients that stay connected above: whom a server may ask that has no call in flight, and who hears what belongs to
//! no call (DESIGN §5).
//!
//! Applies to: inbound.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mgp_types::mcp::{Era, LogLevel, SetLevelParams};
use mgp_types::method::{Initialized, LoggingSetLevel};
use mgp_types::service::{Asking, Call, CallKey, Context, Extensions, Outlet, Pass, ScopeId};

/// How many are known; further ones are served, and hear nothing that belongs to no call of theirs.
const CALLERS: usize = 65_536;

/// The legacy sessions; a modern client is known by its calls only.
#[derive(Clone, Default)]
pub(super) struct Callers(Arc<Mutex<HashMap<ScopeId, Caller>>>);

struct Caller {
    cx: Context,
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
        }
        Noted::Nothing
    }

    /// `true` for one that was not known yet: what a client says of itself once more changes nothing.
    fn join(&self, cx: &Context) -> bool {
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
        if table.contains_key(&id) {
            return false;
        }
        if table.len() >= CALLERS {
            tracing::warn!(CALLERS, "too many clients; this one hears only of its own calls");
            return false;
        }
        table.insert(id, Caller { cx: own, level: None });
        drop(table);
        let all = Arc::downgrade(&self.0);
        let leave = move || {
            if let Some(all) = all.upgrade() {
                // Dropped after the lock: the last handle of a connection may go with it.
                let left = Self(all).table().remove(&id);
                drop(left);
            }
        };
        cx.scope.on_end(leave).keep();
        true
    }

    /// All of whom something is so.
    pub(super) fn all(&self, keep: impl Fn(&Context) -> bool) -> Vec<Context> {
        self.table().values().filter(|caller| keep(&caller.cx)).map(|one| one.cx.clone()).collect()
    }

    /// The least grave level that any of some asked for.
    pub(super) fn level(&self, of: impl Fn(&Context) -> bool) -> Option<LogLevel> {
        let table = self.table();
        table.values().filter(|caller| of(&caller.cx)).filter_map(|caller| caller.level).min()
    }

    fn table(&self) -> MutexGuard<'_, HashMap<ScopeId, Caller>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
