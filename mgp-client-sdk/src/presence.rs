//! Records that a server is there, and that it is gone: each exactly once (MGP §6.4).
//!
//! Applies to: outbound.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mgp_types::mgp::{Actor, AuditEvent, AuditResult, EventType, Target};
use mgp_types::service::{AuditSink, Facts, ServerId, Unaudited};
use mgp_types::{Object, Timestamp};

use crate::wire::{Driver, Life};

/// What a connection is told by, in the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// A child of ours, over its stdin and stdout.
    Child,
    /// A pair of byte streams.
    Streams,
    /// A URL.
    #[cfg(feature = "http")]
    Http,
}

impl Carrier {
    fn as_str(self) -> &'static str {
        match self {
            Self::Child => "stdio",
            Self::Streams => "streams",
            #[cfg(feature = "http")]
            Self::Http => "http",
        }
    }
}

/// A server that is there; when this is dropped it is gone.
pub(crate) struct Presence {
    told: Arc<Told>,
    life: Life,
    /// Notices an end that nobody here brought about.
    _watch: Driver,
}

struct Told {
    sink: Arc<dyn AuditSink>,
    actor: Actor,
    target: Target,
    details: Object,
    /// Cleared with the event that it is gone.
    is_there: AtomicBool,
}

impl Presence {
    /// Records that a server is there, and from then on that it is gone.
    ///
    /// # Errors
    /// [`Unaudited`] when it cannot be recorded; then nothing is recorded of its end either.
    pub(crate) async fn announce(
        sink: &Arc<dyn AuditSink>,
        client: &str,
        server: Option<&ServerId>,
        facts: &Facts,
        carrier: Carrier,
        life: Life,
    ) -> Result<Self, Unaudited> {
        let mut target = Target::new();
        target.server_id = server.map(ToString::to_string);
        let told = Arc::new(Told {
            sink: Arc::clone(sink),
            actor: Actor::new("kernel", client),
            target,
            details: details(facts, carrier),
            is_there: AtomicBool::new(true),
        });
        let connected = told.event(EventType::ServerConnected, AuditResult::Success, None);
        let (watched, over) = (Arc::clone(&told), life.clone());
        let watching = async move {
            let how = over.ending().await;
            watched.gone(AuditResult::Failure, &how);
        };
        // From here on its end is recorded, also when this future is dropped half-way.
        let present = Self { told, life, _watch: Driver::of(watching) };
        if let Err(unaudited) = present.told.sink.record(connected).await {
            present.told.is_there.store(false, Ordering::Release);
            return Err(unaudited);
        }
        Ok(present)
    }

    /// Records that the client ended it, unless the server was gone before.
    pub(crate) fn close(&self, how: &str) {
        match self.life.reason() {
            Some(reason) => self.told.gone(AuditResult::Failure, &reason),
            None => self.told.gone(AuditResult::Success, how),
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
        f.write_str("Presence")
    }
}

impl Told {
    fn gone(&self, result: AuditResult, how: &str) {
        if !self.is_there.swap(false, Ordering::AcqRel) {
            return;
        }
        let event = self.event(EventType::ServerDisconnected, result, Some(how));
        // The sink has it once it was handed over; nobody is left who could be refused for want of a record.
        drop(self.sink.record(event));
    }

    fn event(&self, kind: EventType, result: AuditResult, how: Option<&str>) -> AuditEvent {
        let mut event = AuditEvent::new(Timestamp::now(), kind, self.actor.clone(), result);
        event.target = Some(self.target.clone());
        let mut details = self.details.clone();
        if let Some(how) = how {
            // Words can always be written.
            let _ = details.encode("reason", how);
        }
        event.details = Some(details);
        event
    }
}

/// What is known of the connection; what the server claims of itself is marked as that.
fn details(facts: &Facts, carrier: Carrier) -> Object {
    let mut details = Object::new();
    let era = match facts.era {
        mgp_types::mcp::Era::Modern => "modern",
        mgp_types::mcp::Era::Legacy => "legacy",
    };
    let words = [
        ("era", Some(era)),
        ("revision", Some(facts.revision.as_str())),
        ("transport", Some(carrier.as_str())),
        ("claimed_server_id", facts.claimed_server_id.as_deref()),
    ];
    for (name, word) in words {
        if let Some(word) = word {
            // Words can always be written.
            let _ = details.encode(name, word);
        }
    }
    details
}
