//! Model tests of publishers, subscribers and readers that use a hub at the same time.

use std::collections::BTreeMap;
use std::sync::Arc;

use mgp_types::mgp::EventAttachment;
use mgp_types::service::{BoxFuture, Call, CallKey, Context, Link, Peer, Reply, ScopeKind};
use mgp_types::store::StoreError;
use mgp_types::sync::Mutex;
use mgp_types::{Payload, RpcError};
use serde_json::{Value, json};
use shuttle::future::{block_on, spawn};

use super::Subscriber;
use crate::event::{EventDraft, EventHub, EventStore, StoredEvent, StoredSubscription};
use crate::model::{at_once, explore};

/// The number of unsent events of a subscription from which on publishers wait.
const HIGH_MARK: usize = crate::event::subscription::queue::MAX_KEPT / 2;

/// A connection that records the sequence numbers of the events that are sent on it. If it is stuck, sending on it
/// never completes.
#[derive(Default)]
struct Recorder {
    seqs: Mutex<Vec<u64>>,
    is_stuck: bool,
}

impl Link for Recorder {
    fn send(&self, call: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
        self.seqs.lock().push(seq(&call.params().get().unwrap()));
        if self.is_stuck {
            return Box::pin(std::future::pending());
        }
        Box::pin(std::future::ready(Ok(Reply::None)))
    }
}

fn seq(event: &Value) -> u64 {
    event["_mgp"]["seq"].as_u64().unwrap()
}

/// An event store in memory. Each operation is executed when its method is called.
#[derive(Clone, Default)]
struct MemoryStore {
    subscriptions: Arc<Mutex<BTreeMap<String, StoredSubscription>>>,
    events: Arc<Mutex<BTreeMap<(String, u64), String>>>,
}

fn stored<T: Send + 'static>(value: T) -> BoxFuture<'static, Result<T, StoreError>> {
    Box::pin(std::future::ready(Ok(value)))
}

impl EventStore for MemoryStore {
    fn load(&self) -> BoxFuture<'static, Result<Vec<StoredSubscription>, StoreError>> {
        stored(self.subscriptions.lock().values().cloned().collect())
    }

    fn put(&self, one: StoredSubscription) -> BoxFuture<'static, Result<(), StoreError>> {
        let mut all = self.subscriptions.lock();
        all.entry(one.id.clone()).and_modify(|known| known.cursor = one.cursor).or_insert(one);
        stored(())
    }

    fn remove(&self, id: &str) -> BoxFuture<'static, Result<(), StoreError>> {
        self.subscriptions.lock().remove(id);
        self.events.lock().retain(|(subscription, _), _| subscription != id);
        stored(())
    }

    fn append(&self, events: Vec<StoredEvent>) -> BoxFuture<'static, Result<(), StoreError>> {
        let mut all = self.events.lock();
        for one in events {
            if let Some(known) = self.subscriptions.lock().get_mut(&one.subscription) {
                known.next_seq = one.seq + 1;
            }
            all.insert((one.subscription, one.seq), one.event);
        }
        stored(())
    }

    fn read(
        &self,
        id: &str,
        after: u64,
        until: u64,
        max: usize,
    ) -> BoxFuture<'static, Result<Vec<(u64, String)>, StoreError>> {
        let all = self.events.lock();
        let range = (id.to_owned(), after + 1)..=(id.to_owned(), until.max(after + 1));
        let found = all.range(range).filter(|((_, seq), _)| *seq <= until).take(max);
        stored(found.map(|((_, seq), event)| (*seq, event.clone())).collect())
    }
}

/// Creates a subscription that belongs to no connection, so its events are not sent yet. Returns the subscriber and the
/// id of the subscription.
async fn subscribed(hub: &EventHub, is_durable: bool) -> (Subscriber, String) {
    let mut one = Subscriber::new(hub);
    one.client.cx.scope = mgp_types::service::Scope::new(ScopeKind::Request);
    let params = json!({"channels": ["*"], "durable": is_durable});
    let answer = one.request("mgp/events/subscribe", params).await.unwrap();
    (one, answer["subscription_id"].as_str().unwrap().to_owned())
}

/// Sends the events of a subscription to a link, as a stream of a modern client does.
fn attach(
    hub: &EventHub,
    cx: &Context,
    id: &str,
    link: &Arc<Recorder>,
) -> super::super::AttachedEvents {
    let mut cx = cx.clone();
    (cx.key, cx.peer) = (CallKey::next(), Peer::new(link.clone()));
    let mut attachment = EventAttachment::new(id);
    attachment.after_seq = Some(0);
    let attached = hub.attach(&cx, &Payload::null(), &[attachment]).unwrap();
    attached.start();
    attached
}

fn publish(hub: &EventHub, count: u64) -> shuttle::future::JoinHandle<()> {
    let hub = hub.clone();
    spawn(async move {
        for _ in 0..count {
            super::publish(&hub, EventDraft::new("a.b")).await;
        }
    })
}

async fn hub(is_durable: bool) -> (EventHub, MemoryStore) {
    let (hub, store) = (EventHub::new(), MemoryStore::default());
    if is_durable {
        hub.keep_in(Arc::new(store.clone())).await.unwrap();
    }
    (hub, store)
}

/// Waits until all tasks of the hub have ended; a task that never ends makes the model fail.
fn wait_idle(hub: &EventHub) {
    while hub.is_sending() {
        shuttle::thread::yield_now();
    }
}

/// After a subscription was ended, no event is sent, and a publisher that waits for room in its full queue continues.
fn unsubscribe(is_stuck: bool) {
    let link = Arc::new(Recorder { is_stuck, ..Recorder::default() });
    let (hub, (one, id)) = at_once(|| {
        block_on(async {
            let (hub, _) = hub(false).await;
            let subscribed = subscribed(&hub, false).await;
            for _ in 1..HIGH_MARK {
                super::publish(&hub, EventDraft::new("a.b")).await;
            }
            (hub, subscribed)
        })
    });
    let cx = one.client.cx.clone();
    let attached = attach(&hub, &cx, &id, &link);
    let publishing = publish(&hub, 2);
    let (settling, scope) = (hub.clone(), cx.scope.clone());
    let settling = spawn(async move { settling.settle(&scope).await });
    let (ending, seqs) = (hub.clone(), Arc::clone(&link));
    let unsubscribing = spawn(async move {
        let ended = ending.unsubscribe(&cx.principal, id).await;
        assert!(ended.removed);
        seqs.seqs.lock().len()
    });
    block_on(async {
        let sent = unsubscribing.await.unwrap();
        publishing.await.unwrap();
        settling.await.unwrap();
        wait_idle(&hub);
        let seqs = link.seqs.lock();
        assert_eq!(seqs.len(), sent, "an event was sent after the answer");
        assert!(seqs.iter().copied().eq(1..=sent as u64), "{seqs:?}");
    });
    drop(attached);
    assert_eq!(hub.subscriptions(), 0);
}

#[test]
fn unsubscribing_against_a_publisher_and_a_subscriber_that_is_stuck() {
    explore(50, || unsubscribe(true));
}

#[test]
fn unsubscribing_against_a_publisher_and_a_full_queue() {
    explore(10, || unsubscribe(false));
}

/// If a second stream replaces the first stream, the second gets every event after its `after_seq`, once and in order.
fn replace(is_durable: bool) {
    let (first, second) = (Arc::new(Recorder::default()), Arc::new(Recorder::default()));
    let (hub, (one, id)) = at_once(|| {
        block_on(async {
            let (hub, _) = hub(is_durable).await;
            let subscribed = subscribed(&hub, is_durable).await;
            (hub, subscribed)
        })
    });
    let publishing = publish(&hub, 3);
    let before = attach(&hub, &one.client.cx, &id, &first);
    let after = attach(&hub, &one.client.cx, &id, &second);
    let leaving = spawn(async move { drop(before) });
    block_on(async {
        publishing.await.unwrap();
        leaving.await.unwrap();
    });
    wait_idle(&hub);
    assert_eq!(*second.seqs.lock(), [1, 2, 3]);
    drop(after);
}

#[test]
fn a_new_stream_against_the_old_one_and_a_publisher() {
    explore(100, || replace(false));
}

#[test]
fn a_new_stream_of_a_durable_subscription_against_the_old_one_and_a_publisher() {
    explore(100, || replace(true));
}

/// An `EventReader` gets each event once, and each event wakes it. A client that replays page by page misses no event.
#[test]
fn a_cursor_against_a_publisher() {
    explore(60, || {
        let (hub, one, id, reader) = at_once(|| {
            block_on(async {
                let (hub, _) = hub(true).await;
                let (one, id) = subscribed(&hub, false).await;
                let reader = hub.reader("reader", &["*"], None).await.unwrap();
                (hub, one, id, reader)
            })
        });
        let publishing = publish(&hub, 3);
        let reading = spawn(async move {
            let mut seqs = Vec::new();
            while seqs.len() < 3 {
                let read = reader.read(2).await.unwrap();
                seqs.extend(read.iter().map(|event| event.seq));
                reader.acknowledge(*seqs.last().unwrap()).await.unwrap();
            }
            (seqs, reader.waiting())
        });
        let mut one = one;
        let replaying = spawn(async move {
            let mut seqs = Vec::new();
            while seqs.len() < 3 {
                let params = json!({"subscription_id": id, "limit": 1, "after_seq": seqs.len()});
                let page = one.request("mgp/events/replay", params).await.unwrap();
                seqs.extend(page["events"].as_array().unwrap().iter().map(seq));
                shuttle::future::yield_now().await;
            }
            seqs
        });
        block_on(async {
            publishing.await.unwrap();
            assert_eq!(reading.await.unwrap(), (vec![1, 2, 3], 0));
            assert_eq!(replaying.await.unwrap(), [1, 2, 3]);
        });
        wait_idle(&hub);
    });
}

/// After a durable subscription has ended, the store contains nothing of the subscription any more.
#[test]
fn unsubscribing_a_durable_subscription_against_a_publisher() {
    explore(60, || {
        let (hub, store, (one, id)) = at_once(|| {
            block_on(async {
                let (hub, store) = hub(true).await;
                let subscribed = subscribed(&hub, true).await;
                (hub, store, subscribed)
            })
        });
        let publishing = publish(&hub, 3);
        block_on(async {
            hub.unsubscribe(&one.client.cx.principal, id).await;
            publishing.await.unwrap();
        });
        wait_idle(&hub);
        assert_eq!((store.subscriptions.lock().len(), store.events.lock().len()), (0, 0));
    });
}

#[test]
fn unsubscribing_a_durable_subscription_against_a_use_of_it() {
    explore(60, || {
        let (hub, store, (one, id)) = at_once(|| {
            block_on(async {
                let (hub, store) = hub(true).await;
                let subscribed = subscribed(&hub, true).await;
                (hub, store, subscribed)
            })
        });
        let cx = one.client.cx.clone();
        let (ending, principal, ended) = (hub.clone(), cx.principal.clone(), id.clone());
        let unsubscribing = spawn(async move { ending.unsubscribe(&principal, ended).await });
        // Ignore the error, which is returned if the subscription has already ended.
        drop(hub.attach(&cx, &Payload::null(), &[EventAttachment::new(id)]));
        block_on(async { unsubscribing.await.unwrap() });
        assert_eq!(store.subscriptions.lock().len(), 0);
    });
}
