//! Who may stop a server: whoever started it, and operators (checklist C18).
//!
//! Applies to: inbound.

use std::sync::atomic::{AtomicBool, Ordering};

use mgp_types::service::{Authority, Context, Scope};

/// Marks the connection of whoever started this server.
///
/// It says nothing of other rights: the parent of a governed server administers no access by it.
///
/// ```
/// use mgp_lifecycle::Owner;
/// use mgp_types::service::{Peer, Scope, ScopeKind};
///
/// let scope = Scope::new(ScopeKind::Connection);
/// let cx = Peer::none().context(&scope);
/// assert!(!Owner::is(&cx));
/// Owner::mark(&scope);
/// assert!(Owner::is(&cx));
/// ```
#[derive(Debug, Default)]
pub struct Owner(AtomicBool);

impl Owner {
    /// Says that the peer of this connection owns the server; only who serves a process's parent does.
    pub fn mark(scope: &Scope) {
        scope.state::<Self>().0.store(true, Ordering::Relaxed);
    }

    /// Whether a call comes from the owner: over its connection, or from an operator.
    #[must_use]
    pub fn is(cx: &Context) -> bool {
        cx.principal.authority() == Authority::Operator || Self::is_here(cx)
    }

    /// Whether a call comes over the connection of whoever started this server.
    pub(super) fn is_here(cx: &Context) -> bool {
        cx.scope.state::<Self>().0.load(Ordering::Relaxed)
    }
}
