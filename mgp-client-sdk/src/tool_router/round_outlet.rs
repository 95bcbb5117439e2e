//! The outlet of a parked call, i.e. of a call that continues while its caller sends further requests. It passes on the
//! partial results of the call, and the members that layers add to its result.

use std::sync::Arc;

use mgp_types::proposal::ResultMembers;
use mgp_types::service::{
    BoxFuture, ConsumerGone, Context, Outlet, OutletItem, OutletItemKind, Sink,
};
use mgp_types::sync::Mutex;

/// An outlet that passes the partial results of a parked call to the caller's current request, and drops partial
/// results that arrive between two requests of the caller.
#[derive(Default)]
pub(crate) struct RoundOutlet {
    outlet: Mutex<Outlet>,
    /// The members of extensions beyond MGP that the layers of the call add to its result.
    members: Option<Arc<ResultMembers>>,
}

impl RoundOutlet {
    /// Creates an outlet that begins with the caller's first request.
    pub(crate) fn new(first: &Context) -> Self {
        let outlet = Mutex::new(first.outlet.clone());
        Self { outlet, members: first.extensions.get_shared::<ResultMembers>() }
    }

    /// Sets the outlet that receives further partial results: that of the caller's current request, or
    /// [`Outlet::none`], which drops them.
    pub(super) fn set(&self, outlet: Outlet) {
        let replaced = std::mem::replace(&mut *self.outlet.lock(), outlet);
        drop(replaced);
    }

    /// Moves the members of the result from the caller's first request to its current request, which receives the
    /// result.
    pub(super) fn move_members(&self, current: &Context) {
        if let (Some(first), Some(current)) =
            (&self.members, current.extensions.get::<ResultMembers>())
        {
            current.take_from(first);
        }
    }

    fn current(&self) -> Outlet {
        self.outlet.lock().clone()
    }
}

impl Sink for RoundOutlet {
    fn send(&self, item: OutletItem) -> BoxFuture<'_, Result<(), ConsumerGone>> {
        let outlet = self.current();
        Box::pin(async move { outlet.send(item).await })
    }

    fn wants(&self, kind: OutletItemKind) -> bool {
        self.current().wants(kind)
    }
}
