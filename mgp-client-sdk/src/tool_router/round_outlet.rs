//! The partial results of a parked call, which lasts longer than a request of its caller.

use mgp_types::service::{BoxFuture, ConsumerGone, Outlet, OutletItem, OutletItemKind, Sink};
use mgp_types::sync::Mutex;

/// A sink that passes the partial results of a parked call to the caller's current request. Between two requests of the
/// caller, they are dropped.
#[derive(Default)]
pub(crate) struct RoundOutlet(Mutex<Outlet>);

impl RoundOutlet {
    /// Creates a sink for the caller's first request.
    pub(crate) fn new(outlet: Outlet) -> Self {
        Self(Mutex::new(outlet))
    }

    /// Sets the outlet that receives further partial results.
    pub(super) fn set(&self, outlet: Outlet) {
        let replaced = std::mem::replace(&mut *self.0.lock(), outlet);
        drop(replaced);
    }

    fn current(&self) -> Outlet {
        self.0.lock().clone()
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
