//! Events that servers send: kept apart from ours, whatever they say of themselves (MGP §6.5; C11 as amended).
//!
//! Applies to: inbound.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mgp_types::method::{AuditNotification, Notification};
use mgp_types::mgp::{Actor, AuditEvent};
use mgp_types::service::{AuditSink, Audited, Call, Reply, Router, ServerId, Stack};
use mgp_types::{Object, Payload, RpcError, Timestamp};
use tokio::time::Instant;

use super::super::event::{Event, cut};

/// The longest event that is taken, as it came.
const BYTES: usize = 16 * 1024;

/// How many events a server may send at once.
const BURST: u32 = 200;

/// How many a second after that; what comes faster is dropped and counted.
const PER_SECOND: u32 = 50;

/// How often it is told how many were dropped.
const TELL_AFTER: Duration = Duration::from_mins(1);

/// Takes `notifications/mgp.audit` of servers, on the client's inbound side.
///
/// The actor of such an event is always the server, by its configured id, and so is its target's server;
/// the time is when it came. What the server claimed instead stands in the details, and its running number with it.
/// Events of more than 16 KiB, and more than 50 a second after the first 200, are dropped;
/// one `dev.cloto.events_dropped` a minute says how many.
///
/// ```
/// use std::sync::Arc;
/// use mgp_security::Ingest;
/// use mgp_types::service::{MemoryAudit, Stack, mock};
/// use mgp_types::method::{AuditNotification, Notification};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let foreign = MemoryAudit::new(); // a log of its own, not ours
/// let ingest = Ingest::new(Arc::new(foreign.clone()));
/// let mut server = mock::client(Stack::new(ingest.router("garden")));
/// let lie = r#"{"timestamp":"2020-01-01T00:00:00Z","event_type":"ACCESS_GRANTED","result":"SUCCESS",
///     "actor":{"type":"user","id":"ada"},"target":{"server_id":"bank"}}"#;
/// server.notify(AuditNotification::METHOD, lie).await.unwrap();
///
/// let event = foreign.events().remove(0);
/// assert_eq!((event.actor.kind.as_str(), event.actor.id.as_str()), ("server", "garden"));
/// assert_eq!(event.target.unwrap().server_id.as_deref(), Some("garden"));
/// # });
/// ```
#[derive(Clone)]
#[must_use]
pub struct Ingest {
    sink: Arc<dyn AuditSink>,
}

impl Ingest {
    /// Keeps events in a sink, which must not be the log of our own events.
    pub fn new(sink: Arc<dyn AuditSink>) -> Self {
        Self { sink }
    }

    /// Takes the events of one server, which is known by its configured id.
    #[must_use]
    pub fn router(&self, server: impl Into<ServerId>) -> Router {
        let taken = Arc::new(Taken {
            server: server.into(),
            sink: Arc::clone(&self.sink),
            allowance: Mutex::new(Allowance::new()),
        });
        let stack = Stack::from_fn(move |call| {
            taken.take(&call);
            std::future::ready(Ok(Reply::None))
        });
        Router::new().route(AuditNotification::METHOD, stack)
    }
}

impl fmt::Debug for Ingest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ingest")
    }
}

/// What one server may still send, and what it sent in vain.
struct Allowance {
    left: u32,
    since: Instant,
    dropped: u64,
    told: Option<Instant>,
}

impl Allowance {
    fn new() -> Self {
        Self { left: BURST, since: Instant::now(), dropped: 0, told: None }
    }

    fn spend(&mut self) -> bool {
        let earned = self.since.elapsed().as_millis() * u128::from(PER_SECOND) / 1000;
        let earned = u32::try_from(earned).unwrap_or(BURST).min(BURST);
        if earned > 0 {
            self.left = (self.left + earned).min(BURST);
            self.since = Instant::now();
        }
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
    }

    /// How many were dropped, where it is time to say so.
    fn count(&mut self) -> Option<u64> {
        self.dropped += 1;
        if self.told.is_some_and(|told| told.elapsed() < TELL_AFTER) {
            return None;
        }
        self.told = Some(Instant::now());
        Some(std::mem::take(&mut self.dropped))
    }
}

struct Taken {
    server: ServerId,
    sink: Arc<dyn AuditSink>,
    allowance: Mutex<Allowance>,
}

impl Taken {
    fn take(&self, call: &Call) {
        let mut allowance = self.allowance.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = if allowance.spend() { self.read(call) } else { Err("too many") };
        match taken {
            Ok(event) => self.record(event),
            Err(why) => {
                if let Some(count) = allowance.count() {
                    self.record(Event::events_dropped(&self.server, count, why).build());
                }
            }
        }
    }

    fn read(&self, call: &Call) -> Result<AuditEvent, &'static str> {
        let text: Payload = call.params().get().map_err(|_| "not readable")?;
        if text.as_str().len() > BYTES {
            return Err("too large");
        }
        let event = text.get().and_then(|event| self.own(event));
        event.map_err(|_| "not readable")
    }

    /// The event as ours to tell: who sent it is known, the rest is what it claims.
    fn own(&self, mut event: AuditEvent) -> Result<AuditEvent, RpcError> {
        let actor = Actor::server(&self.server);
        let mut claimed = Object::new();
        claimed.insert("timestamp", Payload::of(&event.timestamp)?);
        if event.actor != actor {
            claimed.insert("actor", Payload::of(&event.actor)?);
        }
        let mut target = event.target.take().unwrap_or_default();
        if let Some(server) = target.server_id.replace(self.server.to_string())
            && server != self.server.as_str()
        {
            claimed.insert("server_id", Payload::of(&server)?);
        }
        if let Some(seq) = event.mgp.take().and_then(|mgp| mgp.seq) {
            claimed.insert("seq", Payload::of(&seq)?);
        }
        event.details.get_or_insert_default().insert("claimed", Payload::of(&claimed)?);
        // It belongs to the message, not to the event.
        event.extra.remove("_meta");
        event.trace_id = event.trace_id.map(|trace| cut(&trace, 128));
        event.timestamp = Timestamp::now();
        event.actor = actor;
        event.target = Some(target);
        Ok(event)
    }

    /// Hands the event over; a handler of notifications may not wait.
    fn record(&self, event: AuditEvent) {
        if let Audited::Ready(Err(reason)) = self.sink.record(event) {
            let error = &reason as &dyn std::error::Error;
            tracing::error!(server = %self.server, error, "an event of a server is lost");
        }
    }
}
