//! Tests of subscriptions that are continued, of events that must arrive before answers, and of the channels of many
//! servers.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use mgp_types::Payload;
use mgp_types::mgp::EventAttachment;
use mgp_types::service::{Context, CredentialGrant, Principal, ServerId};
use serde_json::json;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_subscription_that_is_continued_keeps_its_channels_and_filter() {
    let hub = EventHub::new();
    let mut one = Subscriber::new(&hub);
    let id = one.subscribe(&["a.*"]).await;
    for wrong in [
        json!({"channels": ["b"], "subscription_id": id}),
        json!({"channels": [], "subscription_id": id, "filter": {"min_severity": "error"}}),
        json!({"channels": [], "subscription_id": id, "filter": {"loud": true}}),
    ] {
        assert_eq!(
            one.request("mgp/events/subscribe", wrong.clone()).await,
            Err(-32602),
            "{wrong}"
        );
    }
    for right in [
        json!({"channels": [], "subscription_id": id}),
        json!({"channels": ["a.*"], "subscription_id": id, "filter": {}}),
    ] {
        assert!(one.request("mgp/events/subscribe", right).await.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_of_an_ended_server_starts_again_under_its_id_and_number() {
    let (first, second) = (EventHub::new(), EventHub::new());
    let mut before = Subscriber::new(&first);
    let id = before.subscribe(&["a.*"]).await;
    let again = json!({"channels": ["a.*"], "subscription_id": id, "after_seq": 7});
    let mut one = Subscriber::new(&second);
    let answer = one.request("mgp/events/subscribe", again.clone()).await.unwrap();
    assert_eq!(answer["subscription_id"], json!(id));
    publish(&second, EventDraft::new("a.b")).await;
    settle().await;
    let event = one.events().remove(0);
    assert_eq!((&event["_mgp"]["seq"], event["_mgp"].get("dropped")), (&json!(8), None));
    // Another principal must not use the id of the subscription, and a caller must not choose an id whose form differs
    // from the ids of the hub.
    let mut other = Subscriber::new(&second);
    other.client.cx.principal = Principal::local().agent("mallory");
    assert_eq!(other.request("mgp/events/subscribe", again).await, Err(-32602));
    for id in ["sub-1", "webhook-x", "sub-\"},{\"", &format!("sub-{}", "é".repeat(16))] {
        let params = json!({"channels": ["a"], "subscription_id": id});
        assert_eq!(one.request("mgp/events/subscribe", params).await, Err(-32602), "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_is_continued_outlives_its_first_connection() {
    let limits = EventLimits { per_scope: 1, ..EventLimits::default() };
    let hub = EventHub::with_limits(limits, |_, _| true);
    let (mut first, mut second) = (Subscriber::new(&hub), Subscriber::new(&hub));
    let id = first.subscribe(&["*"]).await;
    let again = json!({"channels": [], "subscription_id": id});
    second.request("mgp/events/subscribe", again).await.unwrap();
    // The subscription now counts for the second connection, so the first connection has room for another subscription.
    first.subscribe(&["a"]).await;
    let more = json!({"channels": ["a"]});
    assert_eq!(second.request("mgp/events/subscribe", more).await, Err(3001));
    first.client.cx.scope.end();
    publish(&hub, EventDraft::new("b")).await;
    settle().await;
    assert_eq!(second.channels(), ["b"]);
    second.client.cx.scope.end();
    assert_eq!(hub.subscriptions(), 0);
}

/// Regression test: the first of several subscriptions was moved although the second had no room.
#[tokio::test(start_paused = true)]
async fn a_connection_without_room_for_all_subscriptions_of_a_stream_gets_none() {
    let limits = EventLimits { per_scope: 2, ..EventLimits::default() };
    let hub = EventHub::with_limits(limits, |_, _| true);
    let (mut first, mut second) = (Subscriber::new(&hub), Subscriber::new(&hub));
    let ids = [first.subscribe(&["a"]).await, first.subscribe(&["b"]).await];
    second.subscribe(&["c"]).await;
    let attach = |to: &Subscriber, ids: &[&String]| {
        let attachments: Vec<_> = ids.iter().map(|id| EventAttachment::new(id.as_str())).collect();
        hub.attach(&to.client.cx, &Payload::null(), &attachments).map_err(|error| error.code().0)
    };
    assert_eq!(attach(&second, &[&ids[0], &ids[1]]).err(), Some(3001));
    second.client.cx.scope.end();
    assert_eq!(hub.subscriptions(), 2);
    let third = Subscriber::new(&hub);
    assert!(attach(&third, &[&ids[0], &ids[1], &ids[0]]).is_ok());
    first.client.cx.scope.end();
    assert_eq!(hub.subscriptions(), 2);
    third.client.cx.scope.end();
    assert_eq!(hub.subscriptions(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_connection_leaves_a_later_subscription_with_the_same_id() {
    let hub = EventHub::new();
    let (mut first, mut second) = (Subscriber::new(&hub), Subscriber::new(&hub));
    let id = first.subscribe(&["*"]).await;
    first.request("mgp/events/unsubscribe", json!({"subscription_id": id})).await.unwrap();
    let again = json!({"channels": ["*"], "subscription_id": id});
    second.request("mgp/events/subscribe", again).await.unwrap();
    first.client.cx.scope.end();
    assert_eq!(hub.subscriptions(), 1);
}

#[tokio::test(start_paused = true)]
async fn no_event_is_lost_when_the_credentials_of_the_subscriber_end() {
    let is_admitted = |cx: &Context, _: &EventSubject| {
        cx.extensions.get::<CredentialGrant>().is_none_or(CredentialGrant::is_valid)
    };
    let hub = EventHub::with_limits(EventLimits::default(), is_admitted);
    for (key, sent) in [(None, vec!["a"]), (Some("key"), vec![])] {
        let valid = Arc::new(AtomicBool::new(true));
        let is_valid = Arc::clone(&valid);
        let grant = CredentialGrant::new([""; 0], move || is_valid.load(Ordering::Relaxed));
        let grant = match key {
            Some(key) => grant.of_key(key),
            None => grant,
        };
        let mut one = Subscriber::new(&hub);
        one.client.cx.scope = Scope::new(ScopeKind::Session);
        one.client.cx.extensions.insert(grant);
        let id = one.subscribe(&["a"]).await;
        valid.store(false, Ordering::Relaxed);
        publish(&hub, EventDraft::new("a")).await;
        settle().await;
        // In a session, an expired token does not end the events, because the client is expected to renew it. An API
        // key that has ended does end them.
        assert_eq!(one.channels(), sent, "{key:?}");
        one.client.cx.extensions.insert(CredentialGrant::new([""; 0], || true));
        let again = json!({"channels": [], "subscription_id": id});
        one.request("mgp/events/subscribe", again).await.unwrap();
        settle().await;
        assert_eq!(one.channels(), ["a"], "{key:?}");
        one.client.cx.scope.end();
    }
}

#[tokio::test]
async fn a_call_settles_once_its_events_are_sent_and_does_not_wait_for_a_stuck_reader() {
    let received = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&received);
    let slow = Stack::from_fn(move |_| {
        let count = Arc::clone(&count);
        async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            count.fetch_add(1, Ordering::SeqCst);
            Ok(Reply::None)
        }
    });
    let hub = EventHub::new();
    let mut one = Subscriber::with(&hub, slow);
    one.subscribe(&["*"]).await;
    let mut stuck = Subscriber::with(&hub, Stack::from_fn(|_| std::future::pending()));
    stuck.subscribe(&["*"]).await;
    for _ in 0..100 {
        hub.publish(EventDraft::new("a")).unwrap();
    }
    assert!(hub.is_sending());
    let scope = one.client.cx.scope.clone();
    hub.settle(&scope).await;
    assert_eq!(received.load(Ordering::SeqCst), 100);
    let scope = stuck.client.cx.scope.clone();
    tokio::time::timeout(Duration::from_secs(5), hub.settle(&scope)).await.unwrap();
}

#[test]
fn the_channels_of_one_server_hide_no_others() {
    let hub = EventHub::new();
    let names = |count: usize| (0..count).map(|number| format!("a.{number}"));
    let (loud, other) = (ServerId::from("loud"), ServerId::from("other"));
    hub.set_channels(&loud, names(5_000));
    hub.set_channels(&other, names(3));
    hub.declare("own", "Our own");
    let of = |server: Option<&ServerId>| {
        let table = hub.0.table.read();
        table
            .channels()
            .filter(|(owner, _)| *owner == server)
            .map(|(_, names)| names.len())
            .sum::<usize>()
    };
    assert_eq!((of(Some(&loud)), of(Some(&other)), of(None)), (512, 3, 1));
    hub.set_channels(&loud, names(2));
    assert_eq!(of(Some(&loud)), 2);
}

/// Regression test: an event on a channel that was just being declared removed the description.
#[test]
fn the_description_of_a_channel_is_replaced_only_by_another() {
    let hub = EventHub::new();
    let description = || {
        let table = hub.0.table.read();
        table.channels().find_map(|(_, names)| names.get("a").cloned().flatten())
    };
    hub.declare("a", "first");
    hub.0.table.write().add_channel(None, "a".to_owned(), None);
    assert_eq!(description().as_deref(), Some("first"));
    hub.declare("a", "second");
    assert_eq!(description().as_deref(), Some("second"));
}

#[tokio::test(start_paused = true)]
async fn events_that_were_lost_before_the_hub_are_told_to_its_subscribers() {
    let hub = EventHub::new();
    let mut one = Subscriber::new(&hub);
    let id = one.subscribe(&["*"]).await;
    publish(&hub, EventDraft::new("a").dropped(5)).await;
    settle().await;
    assert_eq!(one.events()[0]["_mgp"], json!({"seq": 1, "dropped": 5}));
    let replayed = one.request("mgp/events/replay", json!({"subscription_id": id})).await.unwrap();
    assert_eq!(replayed["events"][0]["_mgp"]["dropped"], 5);
}
