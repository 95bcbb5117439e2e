//! Distributes event notifications to the subscriptions of a connection.
//!
//! Some existing servers send events without a subscription id, or with a number as the id; both forms are accepted.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mgp_types::mgp::{NotificationExtension, Severity};
use mgp_types::service::Params;
use mgp_types::sync::Mutex;
use mgp_types::{Id, Payload, RpcError, Timestamp};
use serde::Deserialize;

/// The maximum number of events to keep that arrive before the server answers their subscription request.
const MAX_EARLY: usize = 1_024;

/// An event of a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerEvent {
    /// The channel of the event.
    pub channel: String,
    /// The severity in the event's data, else the severity of the event itself, else `info`.
    pub severity: Severity,
    /// The time of the event, if the server states it.
    pub timestamp: Option<Timestamp>,
    /// The data of the event.
    pub data: Payload,
    /// The sequence number of the event in its subscription, if the server numbers events.
    pub seq: Option<u64>,
    /// The number of events that the server dropped directly before this event.
    pub dropped: u64,
    /// The length of the chain of events that led to this event. An event that is published in reaction to this event
    /// has a depth that is greater by one.
    pub depth: u32,
    /// The server that published the event, if a kernel forwarded it.
    pub server_id: Option<String>,
}

/// A function that receives the events of a subscription; runs on the connection's task and must not block.
pub(crate) type EventSink = Arc<dyn Fn(ServerEvent) + Send + Sync>;

/// The subscriptions of a connection; stored in the connection's scope.
#[derive(Default)]
pub(crate) struct EventRoutes {
    table: Mutex<Routes>,
    has_warned: AtomicBool,
}

#[derive(Default)]
struct Routes {
    by_id: HashMap<Id, EventSink>,
    /// The function that receives events that name no subscription.
    unnamed: Option<EventSink>,
    /// Events that arrived before the server answered the request for their subscription.
    early: VecDeque<(Id, ServerEvent)>,
    /// The number of requests to subscribe that are not answered yet.
    requested: usize,
}

/// A guard of a request to subscribe that is not answered yet. While such a guard exists, events that arrive early are
/// kept.
pub(super) struct Requested(Arc<EventRoutes>);

impl EventRoutes {
    pub(super) fn request(self: &Arc<Self>) -> Requested {
        self.table.lock().requested += 1;
        Requested(Arc::clone(self))
    }

    pub(super) fn remove(&self, id: &Id) {
        let removed = self.table.lock().by_id.remove(id);
        drop(removed);
    }

    /// Sets the receiver of events that name no subscription, unless such a receiver is set already. The first receiver
    /// stays, because it counts the lost events of all subscriptions together.
    pub(super) fn set_unnamed(&self, sink: EventSink) {
        self.table.lock().unnamed.get_or_insert(sink);
    }

    /// Delivers the event in a notification's params to the function that receives the events of its subscription.
    pub(crate) fn deliver(&self, params: &Params) {
        let (id, event) = match read(params) {
            Ok(read) => read,
            Err(error) => return tracing::debug!(%error, "invalid event"),
        };
        let mut table = self.table.lock();
        let sink = match &id {
            Some(id) => table.by_id.get(id),
            None => table.unnamed.as_ref(),
        };
        match (sink, id) {
            // Call the sink while the table is locked, so that a later event cannot overtake an event that arrived
            // early.
            (Some(sink), _) => sink(event),
            (None, Some(id)) if table.requested > 0 => {
                if table.early.len() < MAX_EARLY {
                    table.early.push_back((id, event));
                }
            }
            (None, _) => {
                if !self.has_warned.swap(true, Ordering::Relaxed) {
                    tracing::warn!(channel = %event.channel, "event without a subscription; further ones are not logged");
                }
            }
        }
    }
}

impl Requested {
    /// Makes `sink` receive the events of a subscription, beginning with the events that arrived before the server's
    /// answer. Returns whether another subscription of the connection has the same id.
    pub(super) fn answered(self, id: Id, sink: EventSink) -> bool {
        let mut table = self.0.table.lock();
        let early = std::mem::take(&mut table.early);
        for (of, event) in early {
            if of == id {
                sink(event);
            } else {
                table.early.push_back((of, event));
            }
        }
        table.by_id.insert(id, sink).is_some()
    }
}

impl Drop for Requested {
    fn drop(&mut self) {
        let mut table = self.0.table.lock();
        table.requested -= 1;
        if table.requested == 0 {
            table.early.clear();
        }
    }
}

/// Reads an event and, if the event names its subscription, the id of the subscription.
fn read(params: &Params) -> Result<(Option<Id>, ServerEvent), RpcError> {
    read_event(&params.get::<Payload>()?)
}

pub(super) fn read_event(params: &Payload) -> Result<(Option<Id>, ServerEvent), RpcError> {
    #[derive(Deserialize)]
    struct Wire {
        #[serde(default)]
        subscription_id: Option<Id>,
        channel: String,
        #[serde(default)]
        timestamp: Option<Payload>,
        #[serde(default)]
        data: Option<Payload>,
        #[serde(default)]
        severity: Option<Severity>,
        #[serde(default, rename = "_mgp")]
        mgp: Option<NotificationExtension>,
    }
    #[derive(Deserialize)]
    struct Data {
        severity: Severity,
    }
    let wire: Wire = params.get()?;
    let mgp = wire.mgp.unwrap_or_default();
    let data = wire.data.unwrap_or_else(Payload::empty_object);
    let of_data = data.as_str().contains("\"severity\"").then(|| data.get::<Data>().ok()).flatten();
    let event = ServerEvent {
        channel: wire.channel,
        severity: of_data.map(|data| data.severity).or(wire.severity).unwrap_or(Severity::Info),
        // A time that is not a text, e.g. a number, counts as missing.
        timestamp: wire.timestamp.and_then(|at| at.get::<Timestamp>().ok()),
        data,
        // Ignore the greatest number as invalid, because no event could follow it.
        seq: mgp.seq.filter(|seq| *seq < u64::MAX),
        dropped: mgp.dropped.unwrap_or(0),
        depth: mgp.depth.unwrap_or(0),
        server_id: mgp.server_id,
    };
    Ok((wire.subscription_id, event))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_is_not_a_text_counts_as_missing() {
        let noon = "2026-03-01T12:00:00Z";
        let text = format!("\"{noon}\"");
        for (time, expected) in
            [(text.as_str(), Some(noon)), ("1772366400.5", None), ("null", None), ("{}", None)]
        {
            let event = format!(r#"{{"channel":"a","timestamp":{time},"data":1}}"#);
            let (_, event) = read_event(&Payload::parse(event).unwrap()).unwrap();
            assert_eq!(event.timestamp, expected.map(Timestamp::from), "{time}");
            assert_eq!(event.data.as_str(), "1");
        }
    }
}
