//! Records that a server is there, and that it is gone: each exactly once (MGP §6.4).
//!
//! Applies to: outbound.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mgp_security::Event;
use mgp_types::service::{AuditSink, Facts, ServerId, Unaudited};

use crate::wire::{Driver, Life};

/// A server that is there; when this is dropped it is gone.
pub(crate) struct Presence {
    told: Arc<Told>,
    life: Life,
    /// Notices an end that nobody here brought about.
    _watch: Driver,
}

struct Told {
    sink: Arc<dyn AuditSink>,
    server: ServerId,
    /// Cleared with the event that it is gone.
    is_there: AtomicBool,
    /// Whether it was asked to leave.
    leaves: AtomicBool,
}

impl Presence {
    /// Records that a server is there, and from then on that it is gone.
    ///
    /// # Errors
    /// [`Unaudited`] when it cannot be recorded; then nothing is recorded of its end either.
    pub(crate) async fn announce(
        sink: &Arc<dyn AuditSink>,
        server: &ServerId,
        facts: &Facts,
        life: Life,
    ) -> Result<Self, Unaudited> {
        let is_there = AtomicBool::new(true);
        let (sink, server, leaves) = (Arc::clone(sink), server.clone(), AtomicBool::new(false));
        let told = Arc::new(Told { sink, server, is_there, leaves });
        let (watched, over) = (Arc::clone(&told), life.clone());
        let watching = async move {
            let how = over.ending().await;
            watched.lost(&how);
        };
        // From here on its end is recorded, also when this future is dropped half-way.
        let present = Self { told, life, _watch: Driver::of(watching) };
        let connected = Event::server_connected(&present.told.server, facts).build();
        if let Err(unaudited) = present.told.sink.record(connected).await {
            present.told.is_there.store(false, Ordering::Release);
            return Err(unaudited);
        }
        Ok(present)
    }

    /// Notes that the server was asked to leave: that it does is no loss.
    pub(crate) fn leaves(&self) {
        self.told.leaves.store(true, Ordering::Release);
    }

    /// Records that it ended by itself.
    pub(crate) fn is_lost(&self, how: &str) {
        self.told.lost(how);
    }

    /// Records that the client ended it, unless the server was gone before.
    pub(crate) fn close(&self, how: &str) {
        match self.life.reason() {
            Some(reason) => self.told.lost(&reason),
            None => self.told.gone(Event::server_disconnected, how),
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.close("the client let go of it");
    }
}

impl fmt::Debug for Presence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Presence({})", self.told.server)
    }
}

impl Told {
    fn lost(&self, how: &str) {
        let asked = self.leaves.load(Ordering::Acquire);
        self.gone(if asked { Event::server_disconnected } else { Event::server_lost }, how);
    }

    fn gone(&self, event: fn(&ServerId, &str) -> Event, how: &str) {
        if self.is_there.swap(false, Ordering::AcqRel) {
            // The sink has it once it was handed over; nobody is left who could be refused for want of a record.
            drop(self.sink.record(event(&self.server, how).build()));
        }
    }
}
