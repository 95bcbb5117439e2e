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

/// The maximum size of these events, in bytes.
const MAX_EARLY_BYTES: usize = 16 * 1024 * 1024;

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

impl ServerEvent {
    pub(super) fn size(&self) -> usize {
        self.channel.len() + self.data.as_str().len()
    }
}

/// A function that receives the events of a subscription; runs on the connection's task and must not block.
pub(crate) type EventSink = Arc<dyn Fn(ServerEvent) + Send + Sync>;

/// The subscriptions of a connection; stored in the connection's scope.
#[derive(Default)]
pub(crate) struct EventRoutes {
    /// A lock that is held while sinks run, so that a later event cannot overtake an event that arrived early. The
    /// table is not locked then, so a sink may end subscriptions.
    order: Mutex<()>,
    table: Mutex<Routes>,
    has_warned: AtomicBool,
}

#[derive(Default)]
struct Routes {
    /// The receivers by the ids of their subscriptions. Some servers give several subscriptions one id.
    by_id: HashMap<Id, Vec<Receiver>>,
    next_receiver: u64,
    /// The function that receives events that name no subscription.
    unnamed: Option<EventSink>,
    /// Events that arrived before the server answered the request for their subscription.
    early: VecDeque<(Id, ServerEvent)>,
    /// The number of requests to subscribe that are not answered yet.
    requested: usize,
}

struct Receiver {
    number: u64,
    sink: EventSink,
    /// `true` for a hook of a gateway: of all hooks with one id, only the first is called, because it counts the lost
    /// events of all of them together.
    is_hook: bool,
}

impl Routes {
    /// Returns the functions that receive an event of this subscription, or an event that names no subscription.
    fn sinks(&self, id: Option<&Id>) -> Vec<EventSink> {
        let Some(id) = id else { return self.unnamed.iter().cloned().collect() };
        let all = self.by_id.get(id).map_or(&[][..], Vec::as_slice);
        let first_hook = all.iter().position(|one| one.is_hook);
        let is_called = |at: &usize| !all[*at].is_hook || first_hook == Some(*at);
        (0..all.len()).filter(is_called).map(|at| Arc::clone(&all[at].sink)).collect()
    }
}

/// A guard of a request to subscribe that is not answered yet. While such a guard exists, events that arrive early are
/// kept.
pub(super) struct Requested(Arc<EventRoutes>);

impl EventRoutes {
    pub(super) fn request(self: &Arc<Self>) -> Requested {
        self.table.lock().requested += 1;
        Requested(Arc::clone(self))
    }

    /// Removes a receiver. Returns whether no other receiver of the subscription is left.
    pub(super) fn remove(&self, id: &Id, number: u64) -> bool {
        let mut table = self.table.lock();
        let Some(receivers) = table.by_id.get_mut(id) else { return true };
        let removed: Vec<_> = receivers.extract_if(.., |one| one.number == number).collect();
        let is_last = receivers.is_empty();
        if is_last {
            table.by_id.remove(id);
        }
        drop(table);
        drop(removed);
        is_last
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
        let _order = self.order.lock();
        let sinks = self.table.lock().sinks(id.as_ref());
        if let Some((last, others)) = sinks.split_last() {
            for sink in others {
                sink(event.clone());
            }
            return last(event);
        }
        let mut table = self.table.lock();
        match id {
            Some(id) if table.requested > 0 => {
                let bytes = table.early.iter().map(|(_, event)| event.size()).sum::<usize>();
                if table.early.len() < MAX_EARLY && bytes + event.size() <= MAX_EARLY_BYTES {
                    table.early.push_back((id, event));
                }
            }
            _ => {
                if !self.has_warned.swap(true, Ordering::Relaxed) {
                    tracing::warn!(channel = %event.channel, "event without a subscription; further ones are not logged");
                }
            }
        }
    }
}

impl Requested {
    /// Makes `sink` receive the events of a subscription, beginning with the events that arrived before the server's
    /// answer. Returns the number of the receiver, and whether another subscription of the connection has the same id.
    pub(super) fn answered(self, id: Id, sink: &EventSink, is_hook: bool) -> (u64, bool) {
        let _order = self.0.order.lock();
        let mut table = self.0.table.lock();
        let early = std::mem::take(&mut table.early);
        let (early, others): (VecDeque<_>, VecDeque<_>) =
            early.into_iter().partition(|(of, _)| *of == id);
        table.early = others;
        let number = table.next_receiver;
        table.next_receiver += 1;
        let receivers = table.by_id.entry(id).or_default();
        let has_same = !receivers.is_empty();
        receivers.push(Receiver { number, sink: Arc::clone(sink), is_hook });
        drop(table);
        for (_, event) in early {
            sink(event);
        }
        (number, has_same)
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
    use std::sync::OnceLock;
    use std::sync::atomic::AtomicUsize;

    use mgp_types::method::{EventNotification, Notification as _};

    use super::*;

    fn deliver_one(routes: &EventRoutes) {
        let event = r#"{"subscription_id":7,"channel":"a"}"#.to_owned();
        routes.deliver(&Params::split(EventNotification::METHOD, event.into()).unwrap());
    }

    #[test]
    fn a_sink_may_end_its_subscription() {
        let (routes, own) = (Arc::new(EventRoutes::default()), Arc::new(OnceLock::new()));
        let (table, number) = (Arc::clone(&routes), Arc::clone(&own));
        let sink: EventSink = Arc::new(move |_: ServerEvent| {
            assert!(table.remove(&Id::Number(7), *number.get().unwrap()));
        });
        let (number, _) = routes.request().answered(Id::Number(7), &sink, false);
        own.set(number).unwrap();
        let (done, is_done) = std::sync::mpsc::channel();
        // Run this on a separate thread, because a deadlock would otherwise block the test itself.
        std::thread::spawn(move || {
            deliver_one(&routes);
            done.send(routes.table.lock().by_id.len()).unwrap();
        });
        assert_eq!(is_done.recv_timeout(std::time::Duration::from_secs(10)), Ok(0));
    }

    /// Regression test: 1024 events of any size were kept before the server answered the request.
    #[test]
    fn the_size_of_the_events_that_arrive_early_is_limited() {
        let routes = Arc::new(EventRoutes::default());
        let _requested = routes.request();
        let data = "x".repeat(MAX_EARLY_BYTES / 4);
        let event = format!(r#"{{"subscription_id":7,"channel":"a","data":"{data}"}}"#);
        for _ in 0..5 {
            let event = event.clone().into();
            routes.deliver(&Params::split(EventNotification::METHOD, event).unwrap());
        }
        assert_eq!(routes.table.lock().early.len(), 3);
    }

    #[test]
    fn of_the_hooks_with_one_id_only_the_first_is_called() {
        let (routes, id) = (Arc::new(EventRoutes::default()), Id::Number(7));
        let counts = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
        let add = |count: &Arc<AtomicUsize>| {
            let count = Arc::clone(count);
            let sink: EventSink = Arc::new(move |_: ServerEvent| {
                count.fetch_add(1, Ordering::Relaxed);
            });
            routes.request().answered(id.clone(), &sink, true)
        };
        let ((first, has_same), (second, second_has_same)) = (add(&counts[0]), add(&counts[1]));
        assert_eq!((has_same, second_has_same), (false, true));
        let called = || counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        deliver_one(&routes);
        assert_eq!(called(), [1, 0]);
        assert!(!routes.remove(&id, first));
        deliver_one(&routes);
        assert_eq!(called(), [1, 1]);
        assert!(routes.remove(&id, second));
    }

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
