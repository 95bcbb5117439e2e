//! Tests that events reach exactly the clients that subscribed and may see them, and that a subscriber that reads
//! nothing does not affect other subscribers.

#![expect(
    clippy::items_after_statements,
    clippy::print_stdout,
    reason = "helpers beside their test, and a figure"
)]

mod again;
mod durable;
mod model;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mgp_types::Timestamp;
use mgp_types::mcp::Revision;
use mgp_types::mgp::{Extension, ExtensionSet, Severity};
use mgp_types::service::{PeerInfo, Principal, Reply, Scope, ScopeKind, ServerId, Stack, mock};
use serde_json::{Value, json};

use super::{EventDraft, EventHub, EventLimits, EventSubject};

/// A legacy client that negotiated events, with the notifications that it has received.
struct Subscriber {
    client: mock::Client,
    peer: mock::MockPeer,
}

impl Subscriber {
    fn with(hub: &EventHub, answers: Stack) -> Self {
        let peer = mock::peer(answers);
        let mut client = mock::client(Stack::new(hub.router()));
        let mut facts = PeerInfo::new(Revision::V2025_11_25);
        facts.mgp = Some(ExtensionSet::EMPTY.with(Extension::Events));
        client.cx.caller = Arc::new(facts);
        client.cx.peer = peer.peer();
        Self { client, peer }
    }

    fn new(hub: &EventHub) -> Self {
        Self::with(hub, Stack::from_fn(|_| async { Ok(Reply::None) }))
    }

    async fn request(&mut self, method: &str, params: Value) -> Result<Value, i32> {
        let answer = self.client.request(method, &params.to_string()).await;
        answer.map(|answer| answer.get().unwrap()).map_err(|error| error.code().0)
    }

    async fn subscribe(&mut self, channels: &[&str]) -> String {
        let answer = self.request("mgp/events/subscribe", json!({"channels": channels})).await;
        answer.unwrap()["subscription_id"].as_str().unwrap().to_owned()
    }

    fn events(&self) -> Vec<Value> {
        let received = self.peer.received();
        received.iter().map(|call| call.params().get().unwrap()).collect()
    }

    fn channels(&self) -> Vec<String> {
        self.events().iter().map(|event| event["channel"].as_str().unwrap().to_owned()).collect()
    }
}

async fn settle() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

/// Publishes an event, and waits until the hub has acknowledged it.
async fn publish(hub: &EventHub, draft: EventDraft) {
    hub.publish(draft).unwrap().acknowledged().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn patterns_stay_live_and_an_event_is_sent_once() {
    let hub = EventHub::new();
    hub.declare("model.loaded", "A model was loaded");
    let mut one = Subscriber::new(&hub);
    let params = json!({"channels": ["model.*", "model.loaded", "tool.*", "system.error"]});
    let answer = one.request("mgp/events/subscribe", params).await.unwrap();
    assert_eq!(answer["subscribed"], json!(["model.loaded"]));
    assert_eq!(answer["unsupported"], json!(["tool.*", "system.error"]));

    for channel in ["model.loaded", "model.a.b", "tool.failed", "system.error", "other.x"] {
        publish(&hub, EventDraft::new(channel)).await;
    }
    settle().await;
    assert_eq!(one.channels(), ["model.loaded", "model.a.b", "tool.failed", "system.error"]);
    let seqs: Vec<_> = one.events().iter().map(|event| event["_mgp"]["seq"].clone()).collect();
    assert_eq!(seqs, [json!(1), json!(2), json!(3), json!(4)]);
    let listed = one.request("mgp/events/channels", json!({})).await.unwrap();
    assert_eq!(listed["channels"].as_array().unwrap().len(), 5, "{listed}");
}

#[tokio::test(start_paused = true)]
async fn a_subscription_with_a_lifetime_ends_with_a_last_event_that_every_subscriber_sees() {
    let hub = EventHub::with_limits(EventLimits::default(), |_, subject| subject.server.is_some());
    let mut one = Subscriber::new(&hub);
    let params = json!({"channels": ["a"], "ttl_seconds": 60});
    let answer = one.request("mgp/events/subscribe", params.clone()).await.unwrap();
    assert!(answer["expires_at"].is_string() && answer.get("supported").is_none(), "{answer}");
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert!(one.channels().is_empty());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!((one.channels(), hub.subscriptions()), (vec!["subscription_terminated".into()], 0));
    let gone = json!({"subscription_id": answer["subscription_id"]});
    assert_eq!(one.request("mgp/events/replay", gone).await, Err(-32602));

    // A subscriber that reads nothing does not keep its subscription alive.
    let mut stuck = Subscriber::with(&hub, Stack::from_fn(|_| std::future::pending()));
    stuck.request("mgp/events/subscribe", params.clone()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert!(hub.is_sending());
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert!(!hub.is_sending());

    // A subscription that its subscriber ended earlier sends no last event.
    let answer = one.request("mgp/events/subscribe", params).await.unwrap();
    let ended = json!({"subscription_id": answer["subscription_id"]});
    one.request("mgp/events/unsubscribe", ended).await.unwrap();
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(one.channels().len(), 1);

    let forged = hub.publish(EventDraft::new("subscription_terminated")).unwrap_err();
    assert_eq!(forged.code().0, -32602);
}

#[tokio::test(start_paused = true)]
async fn the_answer_names_the_end_of_a_lifetime_that_the_hub_has_changed() {
    let hub = EventHub::new();
    let mut one = Subscriber::new(&hub);
    for (asked, applied) in [(0, 1), (60, 60), (u64::MAX, 2_592_000)] {
        let params = json!({"channels": ["a"], "ttl_seconds": asked});
        let answer = one.request("mgp/events/subscribe", params).await.unwrap();
        let end = Timestamp::from(answer["expires_at"].as_str().unwrap()).to_system_time().unwrap();
        let rest = end.duration_since(SystemTime::now()).unwrap_or_default();
        let applied = Duration::from_secs(applied);
        assert!(rest <= applied && applied < rest + Duration::from_secs(30), "{asked}: {rest:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_to_which_no_events_are_sent_learns_how_often_to_ask() {
    let hub = EventHub::new();
    let mut plain = mock::client(Stack::new(hub.router()));
    let answer = plain.request("mgp/events/subscribe", r#"{"channels":["a"]}"#).await.unwrap();
    let answer: Value = answer.get().unwrap();
    assert_eq!(
        (&answer["supported"], &answer["poll_interval_seconds"]),
        (&json!(false), &json!(30))
    );
}

#[tokio::test(start_paused = true)]
async fn the_severity_of_the_data_comes_first_and_unknown_filters_are_refused() {
    let hub = EventHub::new();
    let mut one = Subscriber::new(&hub);
    let params = json!({"channels": ["*"], "filter": {"min_severity": "warning"}});
    one.request("mgp/events/subscribe", params).await.unwrap();
    let of_data =
        |word: &str| EventDraft::new("a").data(&json!({"severity": word, "n": 1})).unwrap();
    publish(&hub, of_data("info").severity(Severity::Error)).await;
    publish(&hub, EventDraft::new("b")).await;
    publish(&hub, EventDraft::new("c").severity(Severity::Warning)).await;
    publish(&hub, of_data("error")).await;
    settle().await;
    assert_eq!(one.channels(), ["c", "a"]);
    let severities: Vec<_> = one.events().iter().map(|event| event["severity"].clone()).collect();
    assert_eq!(severities, ["warning", "error"]);

    for (filter, word) in [
        (json!({"severity": "info"}), "min_severity"),
        (json!({"data": {"n": "x".repeat(5_000)}}), "4096 bytes"),
        (json!({"min_severity": "loud"}), "info, warning, error"),
    ] {
        let params = json!({"channels": ["*"], "filter": filter}).to_string();
        let error = one.client.request("mgp/events/subscribe", &params).await.unwrap_err();
        assert_eq!(error.code().0, -32602);
        assert!(error.message().contains(word), "{error}");
    }
    for channels in [json!([]), json!(["a*b"]), json!(vec!["a"; 65])] {
        let params = json!({"channels": channels});
        assert_eq!(one.request("mgp/events/subscribe", params).await.unwrap_err(), -32602);
    }
}

#[tokio::test(start_paused = true)]
async fn a_filter_on_data_selects_events_and_stays_with_the_subscription() {
    let hub = EventHub::new();
    let mut one = Subscriber::new(&hub);
    let filter = json!({"data": {"repository": "app", "pushed": true}});
    let params = json!({"channels": ["*"], "filter": filter});
    let subscribed = one.request("mgp/events/subscribe", params).await.unwrap();
    for (number, data) in [
        json!({"repository": "app", "pushed": true, "by": "ann"}),
        json!({"repository": "app"}),
        json!({"repository": "other", "pushed": true}),
        json!(["app"]),
    ]
    .iter()
    .enumerate()
    {
        publish(&hub, EventDraft::new(format!("n{number}")).data(data).unwrap()).await;
    }
    settle().await;
    assert_eq!(one.channels(), ["n0"]);

    let id = &subscribed["subscription_id"];
    for (filter, is_same) in [(filter, true), (json!({"data": {"repository": "b"}}), false)] {
        let params = json!({"channels": [], "subscription_id": id, "filter": filter});
        assert_eq!(one.request("mgp/events/subscribe", params).await.is_ok(), is_same, "{filter}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_replay_is_for_the_owner_and_reports_what_is_gone() {
    let hub = EventHub::new();
    let mut one = Subscriber::new(&hub);
    let id = one.subscribe(&["*"]).await;
    for number in 0..1_500 {
        publish(&hub, EventDraft::new("n").data(&number).unwrap()).await;
    }
    let mut replay = async |params: Value| one.request("mgp/events/replay", params).await.unwrap();
    let all = replay(json!({"subscription_id": id, "limit": 5_000})).await;
    assert_eq!(all["events"].as_array().unwrap().len(), 1_000);
    assert_eq!((&all["has_more"], &all["truncated"]), (&json!(true), &json!(true)));
    let some = replay(json!({"subscription_id": id, "after_seq": 1_490})).await;
    assert_eq!(some["events"].as_array().unwrap().len(), 10);
    assert_eq!((&some["has_more"], &some["truncated"]), (&json!(false), &Value::Null));
    assert_eq!(some["events"][0]["_mgp"]["seq"], 1_491);
    assert_eq!(some["events"][0]["data"], 1_490);
    assert!(some["events"][0].get("subscription_id").is_none());
    // Regression test: a replay after the largest number returned all events, or caused a panic.
    for later in [1_500, 1_501, u64::MAX - 1, u64::MAX] {
        let none = replay(json!({"subscription_id": id, "after_seq": later})).await;
        assert_eq!((&none["events"], &none["truncated"]), (&json!([]), &Value::Null), "{later}");
    }

    let mut other = Subscriber::new(&hub);
    other.client.cx.principal = Principal::local().agent("mallory");
    let params = json!({"subscription_id": id});
    assert_eq!(other.request("mgp/events/replay", params.clone()).await.unwrap_err(), -32602);
    let answer = other.request("mgp/events/unsubscribe", params.clone()).await.unwrap();
    assert_eq!(answer, json!({"subscription_id": id, "removed": false}));
    let answer = one.request("mgp/events/unsubscribe", params).await.unwrap();
    assert_eq!(answer["removed"], true);
}

#[tokio::test(start_paused = true)]
async fn subscriptions_end_with_their_scope_and_are_bounded() {
    let mut limits = EventLimits::default();
    (limits.per_scope, limits.per_principal) = (2, 3);
    let hub = EventHub::with_limits(limits, |_, _| true);
    let mut one = Subscriber::new(&hub);
    let id = one.subscribe(&["*"]).await;
    one.subscribe(&["a"]).await;
    let more = json!({"channels": ["b"]});
    assert_eq!(one.request("mgp/events/subscribe", more.clone()).await.unwrap_err(), 3001);
    let mut two = Subscriber::new(&hub);
    two.subscribe(&["a"]).await;
    assert_eq!(two.request("mgp/events/subscribe", more.clone()).await.unwrap_err(), 3001);
    one.client.cx.scope.end();
    assert_eq!(hub.subscriptions(), 1);
    publish(&hub, EventDraft::new("a")).await;
    settle().await;
    assert!(one.events().is_empty());
    assert_eq!(two.events().len(), 1);
    assert_eq!(one.request("mgp/events/replay", json!({"subscription_id": id})).await, Err(-32602));
    two.request("mgp/events/subscribe", more).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_without_a_connection_polls_and_expires() {
    let hub = EventHub::new();
    let mut polling = Subscriber::new(&hub);
    polling.client.cx.scope = Scope::new(ScopeKind::Request);
    let id = polling.subscribe(&["a"]).await;
    polling.client.cx.scope.end();
    publish(&hub, EventDraft::new("a")).await;
    let params = json!({"subscription_id": id});
    let replayed = polling.request("mgp/events/replay", params.clone()).await.unwrap();
    assert_eq!(replayed["events"].as_array().unwrap().len(), 1);
    assert!(polling.events().is_empty(), "nothing is sent to a request that is over");
    tokio::time::sleep(super::subscription::LEASE * 2).await;
    assert_eq!(polling.request("mgp/events/replay", params).await, Err(-32602));
    let again = json!({"channels": ["a"], "subscription_id": id});
    assert!(polling.request("mgp/events/subscribe", again).await.is_ok(), "its id is free");
}

#[tokio::test(start_paused = true)]
async fn an_expired_subscription_does_not_count_and_a_continued_one_does_not_expire() {
    let limits = EventLimits { per_principal: 1, ..EventLimits::default() };
    let hub = EventHub::with_limits(limits, |_, _| true);
    let mut polling = Subscriber::new(&hub);
    polling.client.cx.scope = Scope::new(ScopeKind::Request);
    polling.subscribe(&["a"]).await;
    tokio::time::sleep(super::subscription::LEASE * 2).await;
    let id = polling.subscribe(&["a"]).await;
    for _ in 0..3 {
        tokio::time::sleep(super::subscription::LEASE / 2).await;
        let again = json!({"channels": [], "subscription_id": id});
        assert!(polling.request("mgp/events/subscribe", again).await.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn after_unsubscribe_no_event_is_sent_and_a_slow_one_is_told_what_it_lost() {
    let hub = EventHub::new();
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let permits = Arc::clone(&gate);
    let mut slow = Subscriber::with(&hub, {
        Stack::from_fn(move |_| {
            let permits = Arc::clone(&permits);
            async move {
                permits.acquire().await.unwrap().forget();
                Ok(Reply::None)
            }
        })
    });
    let id = slow.subscribe(&["*"]).await;
    for _ in 0..2_000 {
        publish(&hub, EventDraft::new("a")).await;
    }
    settle().await;
    assert_eq!(slow.events().len(), 1, "the first one is still being sent");
    gate.add_permits(70);
    settle().await;
    let dropped: u64 = slow.events().iter().filter_map(|one| one["_mgp"]["dropped"].as_u64()).sum();
    let last = slow.events().last().unwrap()["_mgp"]["seq"].as_u64().unwrap();
    assert!(dropped > 900, "{dropped}");
    assert_eq!(last, slow.events().len() as u64 + dropped, "every number is sent or counted");

    let answer = slow.request("mgp/events/unsubscribe", json!({"subscription_id": id})).await;
    assert_eq!(answer.unwrap()["removed"], true);
    let before = slow.events().len();
    gate.add_permits(10_000);
    publish(&hub, EventDraft::new("a")).await;
    settle().await;
    assert_eq!(slow.events().len(), before);
}

/// Regression test: the waits for the subscriptions of one connection added up.
#[tokio::test(start_paused = true)]
async fn an_answer_waits_once_for_a_connection_that_is_stuck() {
    let hub = EventHub::new();
    let mut stuck = Subscriber::with(&hub, Stack::from_fn(|_| std::future::pending()));
    for _ in 0..3 {
        stuck.subscribe(&["a"]).await;
    }
    publish(&hub, EventDraft::new("a")).await;
    let began = tokio::time::Instant::now();
    hub.settle(&stuck.client.cx.scope).await;
    // The first quarter of a second sees the first event taken from the queue, the second one no progress.
    assert!(began.elapsed() < Duration::from_millis(600));
}

/// Regression test: after a subscriber was slow once, publishers did not wait for it until its queue was empty, so a
/// subscriber that read all the time lost events.
#[tokio::test(start_paused = true)]
async fn publishers_wait_again_for_a_slow_subscriber_that_has_caught_up_in_part() {
    let hub = EventHub::new();
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let permits = Arc::clone(&gate);
    let mut slow = Subscriber::with(&hub, {
        Stack::from_fn(move |_| {
            let permits = Arc::clone(&permits);
            async move {
                permits.acquire().await.unwrap().forget();
                Ok(Reply::None)
            }
        })
    });
    slow.subscribe(&["*"]).await;
    let publish_many = async |count: usize| {
        let began = tokio::time::Instant::now();
        for _ in 0..count {
            publish(&hub, EventDraft::new("a")).await;
        }
        began.elapsed()
    };
    let wait = Duration::from_millis(250);
    assert!(publish_many(QUEUE_ROOM + 1).await >= wait);
    assert!(publish_many(1).await < wait, "it is slow, so publishers do not wait");
    gate.add_permits(QUEUE_ROOM - 100);
    settle().await;
    assert_eq!(slow.events().len(), QUEUE_ROOM - 99, "its queue is not empty");
    assert!(publish_many(QUEUE_ROOM).await >= wait);
}

#[tokio::test(start_paused = true)]
async fn access_is_decided_when_published_and_when_sent() {
    let denied = Arc::new(mgp_types::sync::Mutex::new(Some("secret")));
    let rule = Arc::clone(&denied);
    let hub = EventHub::with_limits(EventLimits::default(), move |_, subject| {
        let server = subject.server.as_ref().map(ServerId::as_str);
        server.is_none() || server != *rule.lock()
    });
    let mut one = Subscriber::new(&hub);
    one.subscribe(&["*"]).await;
    let about = |server: &str| {
        let mut subject = EventSubject::default();
        (subject.server, subject.is_forwarded) = (Some(server.into()), true);
        EventDraft::new("a").subject(subject)
    };
    publish(&hub, about("secret")).await;
    publish(&hub, about("open")).await;
    settle().await;
    assert_eq!(one.events().len(), 1);
    assert_eq!(one.events()[0]["_mgp"]["server_id"], "open");
    hub.set_channels(&"secret".into(), ["x.y"]);
    let listed = one.request("mgp/events/channels", json!({})).await.unwrap();
    assert!(!listed.to_string().contains("secret"), "{listed}");

    let published = hub.publish(about("open")).unwrap();
    *denied.lock() = Some("open");
    published.acknowledged().await.unwrap();
    settle().await;
    assert_eq!(one.events().len(), 1, "access was revoked before it was sent");
}

#[tokio::test(start_paused = true)]
async fn a_name_counts_also_beside_a_pattern_that_covers_it_and_its_events_are_sent_once() {
    let hub = EventHub::with_limits(EventLimits::default(), |_, subject| {
        subject.server.as_ref().map(ServerId::as_str) != Some("secret")
    });
    let mut one = Subscriber::new(&hub);
    let id = one.subscribe(&["*", "a.b", "a.*"]).await;
    let secret = EventSubject { server: Some("secret".into()), ..EventSubject::default() };
    assert_eq!(hub.named_channels(Some(&EventSubject::default())), ["a.b"]);
    assert!(hub.named_channels(Some(&secret)).is_empty());
    assert_eq!(hub.named_channels(None), ["a.b"]);
    publish(&hub, EventDraft::new("a.b")).await;
    settle().await;
    assert_eq!(one.channels(), ["a.b"]);
    let again = json!({"channels": ["*"], "subscription_id": id});
    one.request("mgp/events/subscribe", again).await.unwrap();
    one.client.cx.scope.end();
    assert!(hub.named_channels(None).is_empty());
}

#[tokio::test(start_paused = true)]
async fn only_those_who_receive_the_events_of_a_server_are_its_subscribers() {
    let hub = EventHub::with_limits(EventLimits::default(), |_, subject| {
        subject.server.as_ref().map(ServerId::as_str) != Some("secret")
    });
    let [secret, open, other] = ["secret", "open", "other"].map(ServerId::from);
    for server in [&secret, &open, &other] {
        hub.set_channels(server, [format!("{server}.a.b")]);
    }
    let mut one = Subscriber::new(&hub);
    assert!(!hub.has_subscriber(&open, None));
    let params = json!({"channels": ["open.a.*", "secret.*"], "filter": {"min_severity": "error"}});
    one.request("mgp/events/subscribe", params).await.unwrap();
    assert!(hub.has_subscriber(&open, None));
    assert!(!hub.has_subscriber(&secret, None) && !hub.has_subscriber(&other, None));
    // The events of a principal's own instance of a server are sent to no other principal.
    assert!(hub.has_subscriber(&open, Some(&one.client.cx.principal)));
    assert!(!hub.has_subscriber(&open, Some(&Principal::local().agent("mallory"))));
    one.client.cx.scope.end();
    assert!(!hub.has_subscriber(&open, None));
}

#[tokio::test]
async fn cascades_and_bad_events_are_refused() {
    let hub = EventHub::new();
    publish(&hub, EventDraft::new("a").depth(10)).await;
    for bad in [
        EventDraft::new("a").depth(11),
        EventDraft::new("a b"),
        EventDraft::new("a").data(&"x".repeat(70_000)).unwrap(),
    ] {
        assert_eq!(hub.publish(bad).unwrap_err().code().0, -32602);
    }
}

/// The number of events that the test publishes as fast as possible; more in release builds, which are faster.
const FLOOD: usize = if cfg!(debug_assertions) { 3_000 } else { 100_000 };

/// Half the number of events that a subscription stores; publishers wait from this number on.
const QUEUE_ROOM: usize = super::subscription::queue::MAX_KEPT / 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_a_hundred_subscribers_that_is_stuck_costs_the_others_nothing() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let hub = EventHub::new();
    let received: Vec<_> = (0..100).map(|_| Arc::new(AtomicUsize::new(0))).collect();
    let mut subscribers = Vec::new();
    for (number, count) in received.iter().enumerate() {
        let link = CountingLink { count: Arc::clone(count), is_stuck: number == 0 };
        let mut one = Subscriber::new(&hub);
        one.client.cx.peer = mgp_types::service::Peer::new(Arc::new(link));
        one.subscribe(&["flood.*"]).await;
        subscribers.push(one);
    }
    // The test never publishes more events than fit into the queues of the 99 subscribers that read. It does not wait
    // for subscriber 0, which is stuck.
    let least = || received[1..].iter().map(|count| count.load(Ordering::Relaxed)).min().unwrap();
    let until = tokio::time::Instant::now() + Duration::from_mins(2);
    let reached = async |count: usize| {
        while least() < count && tokio::time::Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    for published in 0..FLOOD {
        if published % 100 == 0 {
            reached(published.saturating_sub(QUEUE_ROOM)).await;
        }
        publish(&hub, EventDraft::new("flood.a")).await;
    }
    reached(FLOOD).await;
    for (number, count) in received.iter().enumerate().skip(1) {
        assert_eq!(count.load(Ordering::Relaxed), FLOOD, "subscriber {number}");
    }
    assert_eq!(received[0].load(Ordering::Relaxed), 1);

    /// A peer that counts the events that are sent to it. If it is stuck, sending to it never completes.
    struct CountingLink {
        count: Arc<AtomicUsize>,
        is_stuck: bool,
    }
    impl mgp_types::service::Link for CountingLink {
        fn send(
            &self,
            _: mgp_types::service::Call,
        ) -> mgp_types::service::BoxFuture<'static, Result<Reply, mgp_types::RpcError>> {
            self.count.fetch_add(1, Ordering::Relaxed);
            if self.is_stuck {
                return Box::pin(std::future::pending());
            }
            Box::pin(std::future::ready(Ok(Reply::None)))
        }
    }
}

#[tokio::test]
async fn an_event_that_matches_no_subscription_costs_little() {
    const EVENTS: u32 = 1_000;
    let mut limits = EventLimits::default();
    (limits.per_scope, limits.per_principal) = (20_000, 20_000);
    let hub = EventHub::with_limits(limits, |_, _| true);
    let mut idle = Subscriber::new(&hub);
    for number in 0..10_000 {
        let channel = match number % 3 {
            0 => format!("idle.{number}"),
            1 => format!("family{number}.*"),
            _ => "busy.*".to_owned(),
        };
        let filter = json!({"min_severity": "error"});
        let params = json!({"channels": [channel], "filter": filter});
        idle.request("mgp/events/subscribe", params).await.unwrap();
    }
    // Take the fastest of several batches, because a busy machine may interrupt some of them.
    let mut each = Duration::MAX;
    for _ in 0..10 {
        let drafts: Vec<_> = (0..EVENTS).map(|_| EventDraft::new("busy.here.now")).collect();
        let began = now();
        for draft in drafts {
            publish(&hub, draft).await;
        }
        each = each.min(began.elapsed() / EVENTS);
    }
    println!("an event that matches none of 10,000 subscriptions: {each:?}");
    let bound = if cfg!(debug_assertions) { 40 } else { 2 };
    assert!(each <= Duration::from_micros(bound), "{each:?}");
}

#[expect(clippy::disallowed_methods, reason = "real time is measured")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}
