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

impl Callers {
    /// Notes what a call from above tells of its caller; `true` when another level of log messages is wanted now.
    pub(super) fn note(&self, call: &Call) -> bool {
        if call.tells::<Initialized>() {
            self.join(call.cx());
        } else if call.is::<LoggingSetLevel>()
            && let Ok(params) = call.params().get::<SetLevelParams>()
            && let Some(caller) = self.table().get_mut(&call.cx().scope.id())
        {
            caller.level = Some(params.level);
            return true;
        }
        false
    }

    fn join(&self, cx: &Context) {
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
        if table.len() >= CALLERS && !table.contains_key(&id) {
            tracing::warn!(CALLERS, "too many clients; this one hears only of its own calls");
            return;
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
