//! Tests that events of durable subscriptions survive the subscriber's absence and a killed process.

use mgp_types::mgp::Severity;
use mgp_types::store::Db;
use serde_json::json;

use super::{Subscriber, settle};
use crate::event::{EventDraft, EventHub};

async fn hub(folder: &mgp_testkit::TempDir) -> EventHub {
    let hub = EventHub::new();
    hub.keep_in_db(Db::open(folder.path().join("events.db")).await.unwrap()).await.unwrap();
    hub
}

fn durable() -> serde_json::Value {
    json!({"channels": ["a.*"], "durable": true})
}

#[tokio::test]
async fn an_acknowledged_event_reaches_a_subscriber_that_was_away_exactly_once() {
    let folder = mgp_testkit::temp_dir();
    let id = {
        let hub = hub(&folder).await;
        let mut one = Subscriber::new(&hub);
        let answer = one.request("mgp/events/subscribe", durable()).await.unwrap();
        hub.publish(EventDraft::new("a.1")).await.unwrap();
        settle().await;
        assert_eq!(one.channels(), ["a.1"]);
        one.client.cx.scope.end();
        hub.publish(EventDraft::new("a.2")).await.unwrap();
        answer["subscription_id"].as_str().unwrap().to_owned()
    };
    // The first hub was dropped without being ended, as if its process had been killed.
    let hub = hub(&folder).await;
    hub.publish(EventDraft::new("a.3")).await.unwrap();
    let mut other = Subscriber::new(&hub);
    other.client.cx.principal = mgp_types::service::Principal::local().agent("mallory");
    let resume = json!({"channels": [], "subscription_id": id, "after_seq": 1});
    let refused = other.request("mgp/events/subscribe", resume.clone()).await;
    assert_eq!(refused, Err(-32602), "it belongs to another principal");

    let mut again = Subscriber::new(&hub);
    let answer = again.request("mgp/events/subscribe", resume).await.unwrap();
    assert_eq!((&answer["subscription_id"], answer.get("truncated")), (&json!(id), None));
    hub.publish(EventDraft::new("a.4")).await.unwrap();
    settle().await;
    assert_eq!(again.channels(), ["a.2", "a.3", "a.4"]);
    let replayed = again.request("mgp/events/replay", json!({"subscription_id": id, "limit": 2}));
    let replayed = replayed.await.unwrap();
    assert_eq!(
        (&replayed["events"][1]["channel"], &replayed["has_more"]),
        (&json!("a.2"), &json!(true))
    );
    let ended = again.request("mgp/events/unsubscribe", json!({"subscription_id": id})).await;
    assert_eq!(ended.unwrap()["removed"], true);
    assert_eq!(self::hub(&folder).await.subscriptions(), 0);
}

#[tokio::test]
async fn stored_events_are_bounded_and_the_loss_is_reported() {
    let folder = mgp_testkit::temp_dir();
    let hub = hub(&folder).await;
    let mut one = Subscriber::new(&hub);
    let answer = one.request("mgp/events/subscribe", durable()).await.unwrap();
    let id = &answer["subscription_id"];
    one.client.cx.scope.end();
    for _ in 0..10_500 {
        drop(hub.publish(EventDraft::new("a.b")));
    }
    hub.flush().await.unwrap();
    let params = json!({"subscription_id": id, "limit": 1});
    let replayed = one.request("mgp/events/replay", params).await.unwrap();
    assert_eq!(
        (&replayed["events"][0]["_mgp"]["seq"], &replayed["truncated"]),
        (&json!(501), &json!(true))
    );
    for number in 0..15 {
        assert!(one.request("mgp/events/subscribe", durable()).await.is_ok(), "{number}");
    }
    assert_eq!(one.request("mgp/events/subscribe", durable()).await, Err(3001));
}

#[tokio::test]
async fn without_a_store_durable_is_refused() {
    let hub = EventHub::new();
    let mut one = Subscriber::new(&hub);
    assert_eq!(one.request("mgp/events/subscribe", durable()).await, Err(-32602));
}

#[tokio::test]
async fn a_reader_continues_at_its_position_and_starts_again_with_other_patterns() {
    let folder = mgp_testkit::temp_dir();
    {
        let hub = hub(&folder).await;
        let reader = hub.reader("hook", &["a.*"], None).await.unwrap();
        for _ in 0..3 {
            hub.publish(EventDraft::new("a.b").severity(Severity::Error)).await.unwrap();
        }
        assert_eq!(reader.read(2).await.unwrap().len(), 2);
        reader.acknowledge(2).await.unwrap();
    }
    let hub = hub(&folder).await;
    let reader = hub.reader("hook", &["a.*"], None).await.unwrap();
    assert_eq!(reader.waiting(), 1);
    assert_eq!(reader.read(9).await.unwrap()[0].seq, 3);
    let other = hub.reader("hook", &["b.*"], Some(&Severity::Warning)).await.unwrap();
    assert_eq!(other.waiting(), 0);
}
