//! Events that servers send. They are recorded separately from our own, with the sending server as the actor (MGP
//! §6.5).

use std::sync::Arc;
use std::time::Duration;

use mgp_types::method::{AuditNotification, Notification};
use mgp_types::mgp::{Actor, AuditEvent};
use mgp_types::service::{AuditFuture, AuditSink, Call, Reply, Router, ServerId, Stack};
use mgp_types::sync::Mutex;
use mgp_types::{Object, Payload, RpcError, Timestamp};
use tokio::time::Instant;

use super::super::event::{Event, cut};

/// The maximum size of a received event, in bytes; larger events are dropped.
const MAX_BYTES: usize = 16 * 1024;

/// The number of events that a server can send in a burst before the rate limit applies.
const BURST: u32 = 200;

/// The maximum number of events per second after the burst; events beyond it are dropped and counted.
const EVENTS_PER_SECOND: u32 = 50;

/// The minimum interval between two reports about the dropped events of a server.
const REPORT_INTERVAL: Duration = Duration::from_mins(1);

/// A receiver that records `notifications/mgp.audit` of servers, on the client's inbound side.
///
/// In the recorded event, the actor and the target's server are always the sending server, named by its configured id,
/// and the time is the time of receipt. The details contain the values that the server sent for these members, and its
/// sequence number. Events of more than 16 KiB are dropped, and so are events beyond 50 per second after the first 200.
/// At most once a minute, an event `dev.cloto.events_dropped` reports how many were dropped.
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
    /// Creates a receiver that records in a sink, which must not be the log of our own events.
    pub fn new(sink: Arc<dyn AuditSink>) -> Self {
        Self { sink }
    }

    /// Returns a router for the events of one server, known by its configured id.
    #[must_use]
    pub fn router(&self, server: impl Into<ServerId>) -> Router {
        let events = Arc::new(ServerEvents {
            server: server.into(),
            sink: Arc::clone(&self.sink),
            allowance: Mutex::new(Allowance::new()),
        });
        let stack = Stack::from_fn(move |call| {
            events.take(&call);
            std::future::ready(Ok(Reply::None))
        });
        Router::new().route(AuditNotification::METHOD, stack)
    }
}

mgp_types::opaque_debug!(Ingest);

/// The rate limit of one server, with the number of its dropped events.
struct Allowance {
    left: u32,
    since: Instant,
    dropped: u64,
    reported: Option<Instant>,
}

impl Allowance {
    fn new() -> Self {
        Self { left: BURST, since: Instant::now(), dropped: 0, reported: None }
    }

    fn spend(&mut self) -> bool {
        let earned = self.since.elapsed().as_millis() * u128::from(EVENTS_PER_SECOND) / 1000;
        let earned = u32::try_from(earned).unwrap_or(BURST).min(BURST);
        if earned > 0 {
            self.left = (self.left + earned).min(BURST);
            self.since = Instant::now();
        }
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
    }

    /// Counts a dropped event. If a report is due, returns the number of drops since the last report.
    fn count(&mut self) -> Option<u64> {
        self.dropped += 1;
        if self.reported.is_some_and(|reported| reported.elapsed() < REPORT_INTERVAL) {
            return None;
        }
        self.reported = Some(Instant::now());
        Some(std::mem::take(&mut self.dropped))
    }
}

struct ServerEvents {
    server: ServerId,
    sink: Arc<dyn AuditSink>,
    allowance: Mutex<Allowance>,
}

impl ServerEvents {
    fn take(&self, call: &Call) {
        let mut allowance = self.allowance.lock();
        let received = if allowance.spend() { self.read(call) } else { Err("too many") };
        match received {
            Ok(event) => self.record(event),
            Err(why) => {
                if let Some(count) = allowance.count() {
                    tracing::warn!(server = %self.server, count, reason = why, "dropped events of a server");
                    self.record(Event::events_dropped(&self.server, count, why).build());
                }
            }
        }
    }

    fn read(&self, call: &Call) -> Result<AuditEvent, &'static str> {
        let text: Payload = call.params().get().map_err(|_| "not readable")?;
        if text.as_str().len() > MAX_BYTES {
            return Err("too large");
        }
        let event = text.get().and_then(|event| self.own(event));
        event.map_err(|_| "not readable")
    }

    /// Rewrites a received event: the server that sent the event becomes the actor, and the values that the server sent
    /// instead go into the details.
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
        // `_meta` belongs to the message and not to the event, so remove it.
        event.extra.remove("_meta");
        event.trace_id = event.trace_id.map(|trace| cut(&trace, 128));
        event.timestamp = Timestamp::now();
        event.actor = actor;
        event.target = Some(target);
        Ok(event)
    }

    /// Passes the event to the sink, but does not wait until it is stored, because a handler of notifications must not
    /// wait.
    fn record(&self, event: AuditEvent) {
        if let AuditFuture::Ready(Err(reason)) = self.sink.record(event) {
            let error = &reason as &dyn std::error::Error;
            tracing::error!(server = %self.server, error, "dropped an event of a server: it cannot be recorded");
        }
    }
}
