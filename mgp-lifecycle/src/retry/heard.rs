//! Notes what of a call reached whoever listens to it: what was heard cannot be taken back.
//!
//! Applies to: outbound.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use mgp_types::service::{BoxFuture, Call, Gone, Item, ItemKind, Outlet, Sink};

/// What reached the listener, the most telling of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Heard {
    Nothing,
    /// A step, a log message: the call was under way.
    Something,
    /// A piece of the result.
    Chunk,
}

/// A look-out in the outlet of a call.
pub(super) struct Ear {
    inner: Outlet,
    heard: AtomicU8,
}

impl Ear {
    /// Puts a look-out into the outlet of a call; nothing where nobody listens.
    pub(super) fn listen(call: &mut Call) -> Option<Arc<Self>> {
        let outlet = &mut call.cx_mut().outlet;
        if outlet.is_none() {
            return None;
        }
        let inner = std::mem::take(outlet);
        let ear = Arc::new(Self { inner, heard: AtomicU8::new(Heard::Nothing as u8) });
        *outlet = Outlet::new(Arc::clone(&ear) as Arc<dyn Sink>);
        Some(ear)
    }

    pub(super) fn heard(&self) -> Heard {
        match self.heard.load(Ordering::Relaxed) {
            0 => Heard::Nothing,
            1 => Heard::Something,
            _ => Heard::Chunk,
        }
    }
}

impl Sink for Ear {
    fn send(&self, item: Item) -> BoxFuture<'_, Result<(), Gone>> {
        let heard = if item.kind() == ItemKind::Chunk { Heard::Chunk } else { Heard::Something };
        self.heard.fetch_max(heard as u8, Ordering::Relaxed);
        Box::pin(self.inner.send(item))
    }

    fn wants(&self, kind: ItemKind) -> bool {
        self.inner.wants(kind)
    }
}
