//! The owner of a server: the process that started it, and operators.

use std::sync::atomic::{AtomicBool, Ordering};

use mgp_types::service::{Authority, Context, Scope};

/// Mark on the connection to the process that started this server.
///
/// The mark only allows shutdown. For example, it does not let the parent process administer access.
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
    /// Marks the peer of this connection as the owner; to be used only for the process's parent.
    pub fn mark(scope: &Scope) {
        scope.state::<Self>().0.store(true, Ordering::Relaxed);
    }

    /// Returns whether a call was sent by the owner: over its connection, or by an operator.
    #[must_use]
    pub fn is(cx: &Context) -> bool {
        cx.principal.authority() == Authority::Operator || Self::is_here(cx)
    }

    /// Returns whether a call was sent over the connection of the process that started this server.
    pub(super) fn is_here(cx: &Context) -> bool {
        cx.scope.state::<Self>().0.load(Ordering::Relaxed)
    }
}
