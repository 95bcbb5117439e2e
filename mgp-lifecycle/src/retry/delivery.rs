//! Tracks which partial results were delivered to the caller, because this decides whether the call can be retried.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use mgp_types::service::{BoxFuture, Call, ConsumerGone, Outlet, OutletItem, OutletItemKind, Sink};

/// The most important kind of partial result that was delivered so far. It determines whether a retry is possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Delivered {
    Nothing,
    /// A progress step or a log message, which shows that the call has started.
    Item,
    /// A chunk of the result; after it, the call cannot be retried.
    Chunk,
}

/// Wrapper of a call's outlet (its channel for partial results) that records what is delivered.
pub(super) struct OutletMonitor {
    inner: Outlet,
    delivered: AtomicU8,
}

impl OutletMonitor {
    /// Wraps the outlet of a call; returns `None` if the call has no outlet.
    pub(super) fn attach(call: &mut Call) -> Option<Arc<Self>> {
        let outlet = &mut call.cx_mut().outlet;
        if outlet.is_none() {
            return None;
        }
        let inner = std::mem::take(outlet);
        let monitor = Arc::new(Self { inner, delivered: AtomicU8::new(Delivered::Nothing as u8) });
        *outlet = Outlet::new(Arc::clone(&monitor) as Arc<dyn Sink>);
        Some(monitor)
    }

    pub(super) fn delivered(&self) -> Delivered {
        match self.delivered.load(Ordering::Relaxed) {
            0 => Delivered::Nothing,
            1 => Delivered::Item,
            _ => Delivered::Chunk,
        }
    }
}

impl Sink for OutletMonitor {
    fn send(&self, item: OutletItem) -> BoxFuture<'_, Result<(), ConsumerGone>> {
        let delivered =
            if item.kind() == OutletItemKind::Chunk { Delivered::Chunk } else { Delivered::Item };
        self.delivered.fetch_max(delivered as u8, Ordering::Relaxed);
        Box::pin(self.inner.send(item))
    }

    fn wants(&self, kind: OutletItemKind) -> bool {
        self.inner.wants(kind)
    }
}
