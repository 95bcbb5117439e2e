//! A subscription as a stream of events.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use futures_util::Stream;
use mgp_types::mgp::{EventParams, EventsReplayParams, SubscribeEventsParams};
use mgp_types::service::is_connection_lost;
use tokio::sync::mpsc;

use super::routes::read_event;
use super::{EventCursor, EventSink, EventSubscription, ServerEvent, open};
use crate::client::Client;
use crate::error::Error;

/// The maximum number of buffered events for the reader. Further events are dropped here; those with a sequence number
/// are requested again from the server later.
const MAX_BUFFERED: usize = 1_024;

/// The maximum size of the buffered events, in bytes. A single event may be larger.
const MAX_BUFFERED_BYTES: usize = 16 * 1024 * 1024;

/// The maximum number of events in one request for missing events.
const REPLAY_LIMIT: u64 = 1_000;

/// The events of a subscription, in order and without repetition.
///
/// If the sequence number of an event shows that earlier events are missing, these are requested from the server again;
/// events that the server no longer has are counted in [`dropped`](Self::dropped). Dropping the stream ends the
/// subscription, unless the subscription is durable or was resumed.
#[derive(Debug)]
pub struct EventStream {
    client: Client,
    subscription: EventSubscription,
    events: mpsc::Receiver<ServerEvent>,
    /// The size of the events in `events`.
    buffered_bytes: Arc<AtomicUsize>,
    /// The events to return next, in order: missing events that the server sent again, or the event just received.
    recovered: VecDeque<ServerEvent>,
    /// An event that arrived before its predecessors; it is returned after these were requested from the server.
    early: Option<ServerEvent>,
    last: u64,
    dropped: u64,
    overrun: Arc<AtomicU64>,
}

/// The next event, or gap in the events, that the stream has to handle.
enum Taken {
    Event(ServerEvent),
    /// The event from `early`, which had arrived before its predecessors.
    Early(ServerEvent),
    /// Events before this sequence number have arrived, but were not buffered.
    MissingUntil(u64),
}

impl EventStream {
    pub(super) async fn open(client: Client, params: SubscribeEventsParams) -> Result<Self, Error> {
        let (sender, events) = mpsc::channel(MAX_BUFFERED);
        let overrun = Arc::new(AtomicU64::new(0));
        let buffered_bytes = Arc::new(AtomicUsize::new(0));
        let (lost, buffered) = (Arc::clone(&overrun), Arc::clone(&buffered_bytes));
        let sink: EventSink = Arc::new(move |event: ServerEvent| {
            let (seq, size) = (event.seq, event.size());
            let before = buffered.fetch_add(size, Ordering::Relaxed);
            let has_room = before == 0 || before + size <= MAX_BUFFERED_BYTES;
            if has_room && sender.try_send(event).is_ok() {
                return;
            }
            buffered.fetch_sub(size, Ordering::Relaxed);
            if seq.is_none() {
                lost.fetch_add(1, Ordering::Relaxed);
            }
        });
        let subscription = open(&client, client.stack(), &params, sink, None).await?;
        let last = params.after_seq.unwrap_or(0);
        let (recovered, early) = (VecDeque::new(), None);
        let dropped = 0;
        Ok(Self {
            client,
            subscription,
            events,
            buffered_bytes,
            recovered,
            early,
            last,
            dropped,
            overrun,
        })
    }

    /// Returns the existing channels to which the subscription applies.
    #[must_use]
    pub fn subscribed(&self) -> &[String] {
        &self.subscription.subscribed
    }

    /// Returns the requested channels that do not exist yet.
    #[must_use]
    pub fn unsupported(&self) -> &[String] {
        &self.subscription.unsupported
    }

    /// Returns the number of lost events: events that the server dropped or no longer had when they were requested
    /// again, and events without a sequence number that arrived while the buffer was full.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.saturating_add(self.overrun.load(Ordering::Relaxed))
    }

    /// Adds to the number of lost events. The sum saturates, because a server can state any number.
    fn count_dropped(&mut self, count: u64) {
        self.dropped = self.dropped.saturating_add(count);
    }

    /// Returns whether events are lost after the position where the subscription was
    /// [resumed](super::ClientEvents::resume), because the server no longer keeps them.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.subscription.truncated
    }

    /// Returns the position after the last event that was returned. Store it to continue a durable subscription.
    #[must_use]
    pub fn cursor(&self) -> EventCursor {
        EventCursor::new(self.subscription.id.to_string(), self.last)
    }

    /// Returns the next event, or `None` if the subscription or the connection has ended.
    ///
    /// # Cancel safety
    /// No event is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<ServerEvent> {
        loop {
            if let Some(event) = self.recovered.pop_front() {
                if let Some(seq) = event.seq {
                    self.last = self.last.max(seq);
                }
                if event.channel == EventParams::TERMINATED {
                    self.subscription.finish();
                }
                return Some(event);
            }
            let taken = self.take().await?;
            let is_new = matches!(taken, Taken::Event(_));
            let until = match taken {
                Taken::MissingUntil(seq) => seq,
                Taken::Event(event) | Taken::Early(event) => match event.seq {
                    Some(seq) if seq <= self.last => continue,
                    Some(seq) if seq > self.last + 1 => {
                        // The events between the last event and this event are requested below. So count only the
                        // dropped events that are not among them.
                        let missing = seq - self.last - 1;
                        if is_new {
                            self.count_dropped(event.dropped.saturating_sub(missing));
                        }
                        self.early = Some(event);
                        seq
                    }
                    _ => {
                        if is_new {
                            self.count_dropped(event.dropped);
                        }
                        self.recovered.push_back(event);
                        continue;
                    }
                },
            };
            self.recovered = self.missing(until).await?;
            if self.recovered.is_empty() {
                // The server has none of the missing events, so skip them and return the early event.
                self.last = self.last.max(until - 1);
            }
        }
    }

    /// Waits for an event. Returns `None` after the last event of the subscription, or when the connection has ended.
    async fn take(&mut self) -> Option<Taken> {
        if let Some(event) = self.early.take() {
            return Some(Taken::Early(event));
        }
        // Load these values before reading the buffer: an event is put into the buffer before it counts as received, so
        // a received event that is not in the buffer did not fit into it.
        let is_over = self.subscription.received.is_over.load(Ordering::Acquire);
        let received = self.subscription.received.seq.load(Ordering::Acquire);
        if let Ok(event) = self.events.try_recv() {
            return Some(self.unbuffered(event));
        }
        if received > self.last {
            // The buffer was full when these events arrived, so they must be requested again.
            return Some(Taken::MissingUntil(received + 1));
        }
        if is_over {
            return None;
        }
        let event = tokio::select! {
            biased;
            event = self.events.recv() => event,
            () = self.client.liveness().ended() => None,
        };
        event.map(|event| self.unbuffered(event))
    }

    /// Counts an event as removed from the buffer.
    fn unbuffered(&self, event: ServerEvent) -> Taken {
        self.buffered_bytes.fetch_sub(event.size(), Ordering::Relaxed);
        Taken::Event(event)
    }

    /// Requests the events that are missing between the last returned event and the event with the sequence number
    /// `until`. Returns `None` if the connection has ended; no event is lost then, because the cursor is still before
    /// the missing events.
    async fn missing(&mut self, until: u64) -> Option<VecDeque<ServerEvent>> {
        let mut params = EventsReplayParams::new(self.subscription.id.to_string());
        params.after_seq = Some(self.last);
        params.limit = Some((until - self.last - 1).min(REPLAY_LIMIT));
        let replayed = match self.client.events().replay(&params).await {
            Ok(replayed) => replayed,
            Err(Error::Call(error)) if self.client.is_closed() || is_connection_lost(&error) => {
                tracing::debug!(%error, "missing events were not requested");
                return None;
            }
            Err(error) => {
                tracing::debug!(%error, "missing events cannot be requested");
                self.count_dropped(until - self.last - 1);
                return Some(VecDeque::new());
            }
        };
        let read = replayed.events.iter().filter_map(|event| read_event(event).ok());
        let mut events: VecDeque<_> = read.map(|(_, event)| event).collect();
        events.retain(|event| event.seq.is_some_and(|seq| seq > self.last && seq < until));
        for event in &events {
            self.count_dropped(event.dropped);
        }
        if replayed.truncated == Some(true) {
            let first = events.front().and_then(|event| event.seq).unwrap_or(until);
            self.count_dropped(first - self.last - 1);
        }
        Some(events)
    }

    /// Ends the subscription.
    ///
    /// # Errors
    /// See [`Client::request`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the subscription may remain.
    pub async fn unsubscribe(mut self) -> Result<(), Error> {
        Ok(self.subscription.unsubscribe().await?)
    }

    /// Ends the stream but keeps the subscription at the server; [resume](super::ClientEvents::resume) it later at the
    /// returned position.
    pub fn leave(mut self) -> EventCursor {
        self.subscription.keep();
        self.cursor()
    }

    /// Converts this value to a [`Stream`].
    pub fn into_stream(self) -> impl Stream<Item = ServerEvent> + Send {
        futures_util::stream::unfold(self, |mut events| async move {
            let event = events.next().await?;
            Some((event, events))
        })
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::RpcError;
    use mgp_types::method::{EventNotification, Notification as _};
    use mgp_types::service::{Call, Params, Reply, Stack};
    use serde_json::json;

    use super::super::EventRoutes;
    use super::*;
    use crate::test_client::TestClient;

    /// Returns a server that numbers events and cannot send them again.
    fn server() -> Stack {
        Stack::from_fn(|call: Call| async move {
            let answer = match call.method().as_str() {
                "initialize" => json!({
                    "protocolVersion": "2025-06-18",
                    "serverInfo": {"name": "forgetful", "version": "1"},
                    "capabilities": {"mgp": {"version": "0.2.0", "extensions": ["bidirectional"]}},
                }),
                "mgp/events/subscribe" => json!({"subscribed": ["a"], "subscription_id": 7}),
                "mgp/events/unsubscribe" => json!({}),
                other => return Err(RpcError::method_not_found(other)),
            };
            Reply::of(&answer)
        })
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_event_that_arrives_while_the_buffer_is_read_is_not_lost() {
        const EVENTS: u64 = 100_000;
        let client = TestClient::legacy(server()).await;
        let mut events = client.events().subscribe(["*"]).await.unwrap();
        let routes = client.context().scope.state::<EventRoutes>();
        let read = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&read);
        let sending = std::thread::spawn(move || {
            for seq in 1..=EVENTS {
                while seq > seen.load(Ordering::Relaxed) + 512 {
                    if Arc::strong_count(&seen) == 1 {
                        // The receiving half of the test has panicked, so end this half too.
                        return;
                    }
                    std::thread::yield_now();
                }
                let event = json!({"subscription_id": 7, "channel": "a", "_mgp": {"seq": seq}});
                let params = Params::split(EventNotification::METHOD, event.to_string().into());
                routes.deliver(&params.unwrap());
            }
        });
        for seq in 1..=EVENTS {
            assert_eq!(events.next().await.unwrap().seq, Some(seq));
            read.store(seq, Ordering::Relaxed);
        }
        sending.join().unwrap();
        assert_eq!(events.dropped(), 0);
    }

    #[tokio::test]
    async fn streams_with_one_id_receive_all_its_events_and_end_one_by_one() {
        let client = TestClient::legacy(server()).await;
        let routes = client.context().scope.state::<EventRoutes>();
        let deliver = |seq: u64| {
            let event = json!({"subscription_id": 7, "channel": "a", "_mgp": {"seq": seq}});
            let params = Params::split(EventNotification::METHOD, event.to_string().into());
            routes.deliver(&params.unwrap());
        };
        let mut first = client.events().subscribe(["a"]).await.unwrap();
        let mut second = client.events().subscribe(["a"]).await.unwrap();
        deliver(1);
        for events in [&mut first, &mut second] {
            assert_eq!(events.next().await.unwrap().seq, Some(1));
        }
        drop(first);
        deliver(2);
        assert_eq!(second.next().await.unwrap().seq, Some(2));
    }

    #[tokio::test]
    async fn the_size_of_the_buffered_events_is_limited() {
        let client = TestClient::legacy(server()).await;
        let mut events = client.events().subscribe(["*"]).await.unwrap();
        let routes = client.context().scope.state::<EventRoutes>();
        let deliver = |length: usize| {
            let data = "x".repeat(length);
            let event = json!({"subscription_id": 7, "channel": "a", "data": data});
            let params = Params::split(EventNotification::METHOD, event.to_string().into());
            routes.deliver(&params.unwrap());
        };
        for length in [MAX_BUFFERED_BYTES, 1] {
            deliver(length);
        }
        assert_eq!(events.dropped(), 1, "the first event fills the buffer");
        assert!(events.next().await.unwrap().data.as_str().len() > MAX_BUFFERED_BYTES);
        deliver(1);
        assert_eq!(events.next().await.unwrap().data.as_str(), "\"x\"");
        assert_eq!(events.dropped(), 1);
    }

    #[tokio::test]
    async fn a_stream_whose_last_event_found_no_room_ends() {
        let client = TestClient::legacy(server()).await;
        let mut events = client.events().subscribe(["*"]).await.unwrap();
        let routes = client.context().scope.state::<EventRoutes>();
        let room = MAX_BUFFERED as u64;
        for seq in 1..=room + 1 {
            let channel = if seq > room { EventParams::TERMINATED } else { "a" };
            let event = json!({"subscription_id": 7, "channel": channel, "_mgp": {"seq": seq}});
            let params = Params::split(EventNotification::METHOD, event.to_string().into());
            routes.deliver(&params.unwrap());
        }
        for seq in 1..=room {
            assert_eq!(events.next().await.unwrap().seq, Some(seq));
        }
        let end = tokio::time::timeout(std::time::Duration::from_secs(20), events.next()).await;
        assert!(end.unwrap().is_none());
        assert_eq!(events.dropped(), 1);
    }

    /// Regression test: the sum of two counts of dropped events, or the number after the greatest sequence number,
    /// caused a panic.
    #[tokio::test]
    async fn a_server_may_send_any_numbers() {
        let client = TestClient::legacy(server()).await;
        let mut events = client.events().subscribe(["*"]).await.unwrap();
        let routes = client.context().scope.state::<EventRoutes>();
        for seq in [1, 2, u64::MAX, 3] {
            let mgp = json!({"seq": seq, "dropped": u64::MAX});
            let event = json!({"subscription_id": 7, "channel": "a", "_mgp": mgp});
            let params = Params::split(EventNotification::METHOD, event.to_string().into());
            routes.deliver(&params.unwrap());
        }
        for seq in [Some(1), Some(2), None, Some(3)] {
            assert_eq!(events.next().await.unwrap().seq, seq);
        }
        assert_eq!(events.dropped(), u64::MAX);
    }
}
