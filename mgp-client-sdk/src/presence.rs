//! Records when a server connects and when it disconnects, each event exactly once (MGP §6.4).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mgp_security::Event;
use mgp_types::service::{AuditError, AuditSink, PeerInfo, ServerId};

use crate::wire::{Liveness, TaskGuard};

/// A guard that records in the audit log that a server is connected, and later how the connection ended. If no end is
/// recorded yet when the guard is dropped, it records a disconnection.
pub(crate) struct Presence {
    record: Arc<PresenceRecord>,
    liveness: Liveness,
    /// The task that detects an end which this client did not cause.
    _watch: TaskGuard,
}

struct PresenceRecord {
    sink: Arc<dyn AuditSink>,
    server: ServerId,
    /// `true` until the end of the connection is recorded.
    is_connected: AtomicBool,
    /// `true` if the client has asked the server to stop.
    is_stopping: AtomicBool,
}

impl Presence {
    /// Records that a server is connected; from then on its end is recorded too.
    ///
    /// # Errors
    /// [`AuditError`] if recording fails; then the end is not recorded either.
    pub(crate) async fn start(
        sink: &Arc<dyn AuditSink>,
        server: &ServerId,
        facts: &PeerInfo,
        liveness: Liveness,
    ) -> Result<Self, AuditError> {
        let is_connected = AtomicBool::new(true);
        let (sink, server, is_stopping) =
            (Arc::clone(sink), server.clone(), AtomicBool::new(false));
        let record = Arc::new(PresenceRecord { sink, server, is_connected, is_stopping });
        let watching = {
            let (record, liveness) = (Arc::clone(&record), liveness.clone());
            async move { record.lost(&liveness.end_reason().await) }
        };
        // From here on, the end of the connection is recorded even if this future is dropped.
        let presence = Self { record, liveness, _watch: TaskGuard::spawn(watching) };
        let connected = Event::server_connected(&presence.record.server, facts).build();
        if let Err(unaudited) = presence.record.sink.record(connected).await {
            presence.record.is_connected.store(false, Ordering::Release);
            return Err(unaudited);
        }
        Ok(presence)
    }

    /// Marks the server as asked to stop, so that its end is recorded as a disconnection, not as a loss.
    pub(crate) fn set_stopping(&self) {
        self.record.is_stopping.store(true, Ordering::Release);
    }

    /// Records that the server ended: as a disconnection if this client asked it to stop, else as a loss.
    pub(crate) fn set_lost(&self, how: &str) {
        self.record.lost(how);
    }

    /// Records that the client closed the connection. If the connection had already ended, records that end instead.
    pub(crate) fn close(&self, how: &str) {
        match self.liveness.reason() {
            Some(reason) => self.record.lost(&reason),
            None => self.record.record_end(Event::server_disconnected, how),
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.close("the client was dropped");
    }
}

mgp_types::opaque_debug!(Presence);

impl PresenceRecord {
    fn lost(&self, how: &str) {
        let asked = self.is_stopping.load(Ordering::Acquire);
        self.record_end(if asked { Event::server_disconnected } else { Event::server_lost }, how);
    }

    fn record_end(&self, event: fn(&ServerId, &str) -> Event, how: &str) {
        if self.is_connected.swap(false, Ordering::AcqRel) {
            // Do not wait until the record is written: the sink writes it without this wait, and no call depends on it.
            drop(self.sink.record(event(&self.server, how).build()));
        }
    }
}
