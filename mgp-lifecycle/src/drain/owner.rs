//! The owner of a server: the process that started it, and operators.

use std::sync::atomic::{AtomicBool, Ordering};

use mgp_types::service::{Authority, Context, Scope};

/// Mark on a connection whose peer is the process that started this server.
///
/// The mark only permits shutdown. For example, it does not let the parent process administer access.
///
/// ```
/// use mgp_lifecycle::ProcessOwner;
/// use mgp_types::service::{Peer, Scope, ScopeKind};
///
/// let scope = Scope::new(ScopeKind::Connection);
/// let cx = Peer::none().context(&scope);
/// assert!(!ProcessOwner::is(&cx));
/// ProcessOwner::mark(&scope);
/// assert!(ProcessOwner::is(&cx));
/// ```
#[derive(Debug, Default)]
pub struct ProcessOwner(AtomicBool);

impl ProcessOwner {
    /// Marks the peer of this connection as the owner; use it only for the parent process.
    pub fn mark(scope: &Scope) {
        scope.state::<Self>().0.store(true, Ordering::Relaxed);
    }

    /// Returns whether the owner sent a call: over its marked connection, or as an operator.
    #[must_use]
    pub fn is(cx: &Context) -> bool {
        cx.principal.authority() == Authority::Operator || Self::is_here(cx)
    }

    /// Returns whether a call came over a connection whose peer is marked as the process that started this server.
    pub(super) fn is_here(cx: &Context) -> bool {
        cx.scope.state::<Self>().0.load(Ordering::Relaxed)
    }
}
