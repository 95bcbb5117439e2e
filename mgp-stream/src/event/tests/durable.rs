//! Tests that events of durable subscriptions survive the subscriber's absence and a killed process.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use mgp_types::Payload;
use mgp_types::mgp::{EventAttachment, Severity};
use mgp_types::service::{Principal, Stack, TenantId};
use mgp_types::store::Db;
use serde_json::json;

use super::{Subscriber, publish, settle};
use crate::event::{EventDraft, EventHub, EventLimits, EventSubject};

async fn hub(folder: &mgp_testkit::TempDir) -> EventHub {
    let hub = EventHub::new();
    hub.keep_in_db(Db::open(folder.path().join("events.db")).await.unwrap()).await.unwrap();
    hub
}

fn durable() -> serde_json::Value {
    json!({"channels": ["a.*"], "durable": true})
}

/// Polls a request once and drops it, as if its client had disconnected.
fn poll_once(request: impl Future) {
    let _ = pin!(request).poll(&mut Context::from_waker(Waker::noop()));
}

#[tokio::test]
async fn a_stored_subscription_keeps_its_filter() {
    let folder = mgp_testkit::temp_dir();
    let id = {
        let hub = hub(&folder).await;
        let filter = json!({"min_severity": "warning", "data": {"n": 1}});
        let params = json!({"channels": ["a.*"], "durable": true, "filter": filter});
        let answer = Subscriber::new(&hub).request("mgp/events/subscribe", params).await.unwrap();
        answer["subscription_id"].clone()
    };
    let hub = hub(&folder).await;
    let mut again = Subscriber::new(&hub);
    let resume = json!({"channels": [], "subscription_id": id});
    again.request("mgp/events/subscribe", resume).await.unwrap();
    for (n, severity) in [(2, Severity::Error), (1, Severity::Info), (1, Severity::Warning)] {
        let draft = EventDraft::new(format!("a.{severity}")).severity(severity);
        publish(&hub, draft.data(&json!({"n": n})).unwrap()).await;
    }
    settle().await;
    assert_eq!(again.channels(), ["a.warning"]);
}

#[tokio::test]
async fn a_durable_subscription_cannot_have_a_lifetime() {
    let folder = mgp_testkit::temp_dir();
    let hub = hub(&folder).await;
    let mut one = Subscriber::new(&hub);
    let both = json!({"channels": ["a.*"], "durable": true, "ttl_seconds": 60});
    assert_eq!(one.request("mgp/events/subscribe", both).await, Err(-32602));
    assert_eq!(hub.subscriptions(), 0);
    let answer = one.request("mgp/events/subscribe", durable()).await.unwrap();
    let id = &answer["subscription_id"];
    let later = json!({"channels": [], "subscription_id": id, "ttl_seconds": 60});
    assert_eq!(one.request("mgp/events/subscribe", later).await, Err(-32602));
}

#[tokio::test]
async fn an_acknowledged_event_reaches_a_subscriber_that_was_away_exactly_once() {
    let folder = mgp_testkit::temp_dir();
    let id = {
        let hub = hub(&folder).await;
        let mut one = Subscriber::new(&hub);
        let answer = one.request("mgp/events/subscribe", durable()).await.unwrap();
        publish(&hub, EventDraft::new("a.1")).await;
        settle().await;
        assert_eq!(one.channels(), ["a.1"]);
        one.client.cx.scope.end();
        publish(&hub, EventDraft::new("a.2")).await;
        answer["subscription_id"].as_str().unwrap().to_owned()
    };
    // The first hub was dropped without ending its subscriptions, as if its process had been killed.
    let hub = hub(&folder).await;
    publish(&hub, EventDraft::new("a.3")).await;
    let mut other = Subscriber::new(&hub);
    other.client.cx.principal = mgp_types::service::Principal::local().agent("mallory");
    let resume = json!({"channels": [], "subscription_id": id, "after_seq": 1});
    let refused = other.request("mgp/events/subscribe", resume.clone()).await;
    assert_eq!(refused, Err(-32602), "it belongs to another principal");

    let mut again = Subscriber::new(&hub);
    let answer = again.request("mgp/events/subscribe", resume).await.unwrap();
    assert_eq!((&answer["subscription_id"], answer.get("truncated")), (&json!(id), None));
    publish(&hub, EventDraft::new("a.4")).await;
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

/// Regression test: later events were not sent, and the request that ends the subscription was never answered.
#[tokio::test]
async fn a_panic_during_the_sending_of_an_event_affects_no_later_event_and_not_the_end() {
    let folder = mgp_testkit::temp_dir();
    // The access to an event is checked when it is published, and again when it is sent.
    let checks = AtomicUsize::new(0);
    let hub = EventHub::with_limits(EventLimits::default(), move |_, subject| {
        let panics = subject.server.is_some() && checks.fetch_add(1, Ordering::Relaxed) == 1;
        assert!(!panics, "this check panics, as the test requires");
        true
    });
    hub.keep_in_db(Db::open(folder.path().join("events.db")).await.unwrap()).await.unwrap();
    let mut one = Subscriber::new(&hub);
    let answer = one.request("mgp/events/subscribe", durable()).await.unwrap();
    let subject = EventSubject { server: Some("s".into()), ..EventSubject::default() };
    for channel in ["a.1", "a.2"] {
        publish(&hub, EventDraft::new(channel).subject(subject.clone())).await;
        hub.settle(&one.client.cx.scope).await;
    }
    assert_eq!(one.channels(), ["a.2"]);
    let id = json!({"subscription_id": answer["subscription_id"]});
    let ended = one.request("mgp/events/unsubscribe", id);
    let ended = tokio::time::timeout(Duration::from_secs(20), ended).await.unwrap();
    assert_eq!(ended.unwrap()["removed"], true);
    assert_eq!(self::hub(&folder).await.subscriptions(), 0);
}

/// Regression test: the request that ends the subscription was never answered.
#[test]
fn a_subscription_whose_runtime_has_ended_can_be_ended() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let hub = EventHub::new();
    let mut one = Subscriber::new(&hub);
    let id = runtime().block_on(one.subscribe(&["a"]));
    hub.publish(EventDraft::new("a")).unwrap();
    assert!(!hub.is_sending());
    let ended = one.request("mgp/events/unsubscribe", json!({"subscription_id": id}));
    let ended = runtime()
        .block_on(async { tokio::time::timeout(Duration::from_secs(20), ended).await.unwrap() });
    assert_eq!(ended.unwrap()["removed"], true);
}

#[tokio::test]
async fn stored_events_are_bounded_and_the_loss_is_reported() {
    let folder = mgp_testkit::temp_dir();
    let hub = hub(&folder).await;
    let mut one = Subscriber::new(&hub);
    let answer = one.request("mgp/events/subscribe", durable()).await.unwrap();
    let id = &answer["subscription_id"];
    let reader = hub.reader("hook", &["a.*"], None).await.unwrap();
    one.client.cx.scope.end();
    for _ in 0..10_500 {
        hub.publish(EventDraft::new("a.b")).unwrap();
    }
    hub.flush().await.unwrap();
    let params = json!({"subscription_id": id, "limit": 1});
    let replayed = one.request("mgp/events/replay", params).await.unwrap();
    assert_eq!(
        (&replayed["events"][0]["_mgp"]["seq"], &replayed["truncated"]),
        (&json!(501), &json!(true))
    );
    assert_eq!(reader.waiting(), 10_000);
    let read = reader.read(2).await.unwrap();
    let numbers = |at: usize| read[at].event.get::<serde_json::Value>().unwrap()["_mgp"].clone();
    assert_eq!(numbers(0), json!({"seq": 501, "dropped": 500}));
    assert_eq!(numbers(1), json!({"seq": 502}));
    for number in 0..15 {
        assert!(one.request("mgp/events/subscribe", durable()).await.is_ok(), "{number}");
    }
    assert_eq!(one.request("mgp/events/subscribe", durable()).await, Err(3001));
}

#[tokio::test]
async fn a_durable_subscription_that_is_refused_is_not_stored() {
    let folder = mgp_testkit::temp_dir();
    let limits = EventLimits { per_principal: 1, ..EventLimits::default() };
    let hub = EventHub::with_limits(limits, |_, _| true);
    hub.keep_in_db(Db::open(folder.path().join("events.db")).await.unwrap()).await.unwrap();
    let mut one = Subscriber::new(&hub);
    one.request("mgp/events/subscribe", durable()).await.unwrap();
    assert_eq!(one.request("mgp/events/subscribe", durable()).await, Err(3001));
    assert_eq!(self::hub(&folder).await.subscriptions(), 1);
}

#[tokio::test]
async fn a_caller_that_drops_its_requests_gets_no_more_durable_subscriptions_than_others() {
    let folder = mgp_testkit::temp_dir();
    let hub = hub(&folder).await;
    let mut one = Subscriber::new(&hub);
    for _ in 0..20 {
        poll_once(one.request("mgp/events/subscribe", durable()));
    }
    // The store works in order, so it has all subscriptions once it has this one.
    let _reader = hub.reader("hook", &["a.*"], None).await.unwrap();
    assert_eq!(self::hub(&folder).await.subscriptions(), 16 + 1);
}

#[tokio::test]
async fn the_end_of_a_durable_subscription_is_stored_also_if_the_request_is_dropped() {
    let folder = mgp_testkit::temp_dir();
    let hub = hub(&folder).await;
    let mut one = Subscriber::new(&hub);
    let answer = one.request("mgp/events/subscribe", durable()).await.unwrap();
    // The removal has to wait, because this event is not stored yet.
    drop(hub.publish(EventDraft::new("a.1")).unwrap());
    let ended = json!({"subscription_id": answer["subscription_id"]});
    poll_once(one.request("mgp/events/unsubscribe", ended));
    mgp_testkit::until("it is removed", async || self::hub(&folder).await.subscriptions() == 0)
        .await;
}

#[tokio::test]
async fn an_acknowledgement_after_the_end_of_a_reader_stores_nothing() {
    let folder = mgp_testkit::temp_dir();
    let hub = hub(&folder).await;
    let reader = hub.reader("hook", &["a.*"], None).await.unwrap();
    publish(&hub, EventDraft::new("a.b")).await;
    reader.clone().end().await;
    reader.acknowledge(1).await.unwrap();
    assert_eq!(self::hub(&folder).await.subscriptions(), 0);
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
            publish(&hub, EventDraft::new("a.b").severity(Severity::Error)).await;
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
    publish(&hub, EventDraft::new("b.x").severity(Severity::Error)).await;
    assert_eq!(other.read(9).await.unwrap()[0].seq, 4, "no number is used twice");
    drop(hub);
    let hub = self::hub(&folder).await;
    let again = hub.reader("hook", &["b.*"], Some(&Severity::Warning)).await.unwrap();
    assert_eq!(again.read(9).await.unwrap()[0].seq, 4, "also after a restart");
}

#[tokio::test]
async fn readers_do_not_count_against_the_durable_subscriptions_of_a_caller() {
    let folder = mgp_testkit::temp_dir();
    let hub = hub(&folder).await;
    for number in 0..17 {
        hub.reader(&format!("hook-{number}"), &["a.*"], None).await.unwrap();
    }
    let mut one = Subscriber::new(&hub);
    one.client.cx.principal = mgp_types::service::Principal::local().operator();
    for number in 0..16 {
        assert!(one.request("mgp/events/subscribe", durable()).await.is_ok(), "{number}");
    }
    assert_eq!(one.request("mgp/events/subscribe", durable()).await, Err(3001));
}

#[tokio::test]
async fn a_caller_that_knows_no_id_of_its_durable_subscriptions_reads_them_in_the_refusal() {
    let folder = mgp_testkit::temp_dir();
    {
        let mut lost = Subscriber::new(&hub(&folder).await);
        for _ in 0..16 {
            lost.request("mgp/events/subscribe", durable()).await.unwrap();
        }
    }
    let hub = hub(&folder).await;
    let mut one = Subscriber::new(&hub);
    let refused = one.client.request("mgp/events/subscribe", &durable().to_string()).await;
    let message = refused.unwrap_err().message().to_owned();
    let (_, ids) = message.split_once("not connected now: ").unwrap();
    assert_eq!(ids.split(", ").count(), 16, "{message}");
    let ended = json!({"subscription_id": ids.split(", ").next()});
    one.request("mgp/events/unsubscribe", ended).await.unwrap();
    one.request("mgp/events/subscribe", durable()).await.unwrap();
}

#[tokio::test]
async fn readers_of_an_earlier_process_are_ended_with_their_events() {
    let folder = mgp_testkit::temp_dir();
    {
        let hub = hub(&folder).await;
        for id in ["hook-old", "hook-new", "other"] {
            hub.reader(id, &["a.*"], None).await.unwrap();
        }
        let mut one = Subscriber::new(&hub);
        one.client.cx.principal = mgp_types::service::Principal::local().operator();
        one.request("mgp/events/subscribe", durable()).await.unwrap();
        publish(&hub, EventDraft::new("a.b")).await;
    }
    let hub = hub(&folder).await;
    hub.end_readers(|id| {
        hub.declare("b.c", "The function may call the hub.");
        id.starts_with("hook-") && id != "hook-new"
    })
    .await;
    assert_eq!(hub.subscriptions(), 3);
    for (id, waiting) in [("hook-old", 0), ("hook-new", 1), ("other", 1)] {
        let reader = hub.reader(id, &["a.*"], None).await.unwrap();
        assert_eq!(reader.waiting(), waiting, "{id}");
    }
}

#[tokio::test]
async fn an_operator_lists_and_ends_the_subscriptions_of_clients_of_a_tenant() {
    let folder = mgp_testkit::temp_dir();
    let hub = hub(&folder).await;
    let [local, acme] = ["local", "acme"].map(TenantId::from);
    let mut one = Subscriber::new(&hub);
    let answer = one.request("mgp/events/subscribe", durable()).await.unwrap();
    let id = answer["subscription_id"].as_str().unwrap();
    let mut stuck = Subscriber::with(&hub, Stack::from_fn(|_| std::future::pending()));
    stuck.client.cx.principal = Principal::new("acme", "ann").agent("ada");
    stuck.request("mgp/events/subscribe", durable()).await.unwrap();
    stuck.subscribe(&["b"]).await;
    let _reader = hub.reader("hook", &["a.*"], None).await.unwrap();
    for channel in ["a.1", "a.2"] {
        publish(&hub, EventDraft::new(channel)).await;
    }
    settle().await;

    let listed = json!(hub.list_subscriptions(&local));
    let expected = json!([{
        "id": id, "subject": "local", "channels": ["a.*"],
        "durable": true, "connected": true, "waiting": 0,
    }]);
    assert_eq!(listed, expected);
    let listed = hub.list_subscriptions(&acme);
    let mut shown: Vec<_> = listed.iter().map(|one| (one.durable, one.waiting)).collect();
    shown.sort_unstable();
    assert_eq!((shown, listed[0].agent_id.as_deref()), (vec![(false, 0), (true, 1)], Some("ada")));

    hub.end_subscriptions(&acme, Some(id)).await.unwrap();
    assert_eq!(hub.subscriptions(), 4, "it belongs to another tenant");
    hub.end_subscriptions(&local, Some(id)).await.unwrap();
    publish(&hub, EventDraft::new("a.3")).await;
    settle().await;
    assert_eq!(one.channels(), ["a.1", "a.2", "subscription_terminated"]);
    let last = one.events().pop().unwrap();
    assert_eq!(last["data"]["reason"], "ended_by_operator", "{last}");
    assert_eq!(last["_mgp"], json!({"seq": 3}));
    assert_eq!(self::hub(&folder).await.subscriptions(), 2);

    // A client that reads nothing does not delay the removal from the store.
    let ending = hub.end_subscriptions(&acme, None);
    tokio::time::timeout(Duration::from_secs(10), ending).await.unwrap().unwrap();
    assert_eq!((hub.subscriptions(), self::hub(&folder).await.subscriptions()), (1, 1));
}

#[tokio::test]
async fn each_use_of_a_durable_subscription_keeps_it_from_being_removed_as_unused() {
    let folder = mgp_testkit::temp_dir();
    let db = Db::open(folder.path().join("events.db")).await.unwrap();
    let hub = EventHub::new();
    hub.keep_in_db(db.clone()).await.unwrap();
    let mut one = Subscriber::new(&hub);
    let answer = one.request("mgp/events/subscribe", durable()).await.unwrap();
    let id = answer["subscription_id"].as_str().unwrap();
    hub.reader("hook", &["a.*"], None).await.unwrap();
    for used in ["send", "resume", "replay", "attach", "reader"] {
        // The use of a subscription is stored at most once an hour, so let two hours pass.
        tokio::time::pause();
        tokio::time::advance(Duration::from_hours(2)).await;
        tokio::time::resume();
        let sql = "UPDATE events_subscriptions SET used_at = 0";
        db.write(move |tx| Ok(tx.execute(sql, [])?)).await.unwrap();
        match used {
            "send" => publish(&hub, EventDraft::new("a.b")).await,
            "resume" => {
                let params = json!({"channels": [], "subscription_id": id});
                one.request("mgp/events/subscribe", params).await.unwrap();
            }
            "replay" => {
                let params = json!({"subscription_id": id});
                one.request("mgp/events/replay", params).await.unwrap();
            }
            "attach" => {
                let attachment = json!({"subscription_id": id});
                let attachment: EventAttachment = serde_json::from_value(attachment).unwrap();
                let stream = Payload::empty_object();
                drop(hub.attach(&one.client.cx, &stream, &[attachment]).unwrap());
            }
            _ => drop(hub.reader("hook", &["a.*"], None).await.unwrap()),
        }
        let is_noted = async || {
            let sql = "SELECT count(*) FROM events_subscriptions WHERE used_at > 0";
            let count = db.write(move |tx| Ok(tx.query_row(sql, [], |row| row.get::<_, u32>(0))?));
            count.await.unwrap() == 1
        };
        mgp_testkit::until(used, is_noted).await;
    }
}

#[tokio::test]
async fn a_check_of_a_database_finds_a_lost_table_of_events_and_creates_none() {
    let db = Db::in_memory().await.unwrap();
    let drop_table = || db.write(|tx| Ok(tx.execute_batch("DROP TABLE events_kept")?));
    EventHub::check_db(&db).await.unwrap();
    assert!(drop_table().await.is_err());
    EventHub::new().keep_in_db(db.clone()).await.unwrap();
    EventHub::check_db(&db).await.unwrap();
    drop_table().await.unwrap();
    assert!(EventHub::check_db(&db).await.is_err());
}

#[tokio::test]
async fn subscriptions_that_are_removed_as_unused_at_a_start_are_logged() {
    let folder = mgp_testkit::temp_dir();
    {
        let hub = hub(&folder).await;
        let mut one = Subscriber::new(&hub);
        one.request("mgp/events/subscribe", durable()).await.unwrap();
        settle().await;
    }
    let db = Db::open(folder.path().join("events.db")).await.unwrap();
    let sql = "UPDATE events_subscriptions SET used_at = 0";
    db.write(move |tx| Ok(tx.execute(sql, [])?)).await.unwrap();
    let log = mgp_testkit::RecordedLog::of(tracing::Level::INFO);
    let _logged = tracing::subscriber::set_default(log.clone());
    let hub = EventHub::new();
    hub.keep_in_db(db).await.unwrap();
    assert_eq!(hub.subscriptions(), 0);
    let lines = log.lines().join("\n");
    assert!(lines.contains("not used for 30 days"), "{lines}");
}

#[tokio::test]
async fn a_running_hub_removes_subscriptions_that_are_not_used_and_old_events() {
    let folder = mgp_testkit::temp_dir();
    {
        let hub = hub(&folder).await;
        let mut one = Subscriber::new(&hub);
        one.request("mgp/events/subscribe", durable()).await.unwrap();
        drop(hub.reader("hook", &["a.*"], None).await.unwrap());
        for _ in 0..2 {
            publish(&hub, EventDraft::new("a.b")).await;
        }
        settle().await;
    }
    let db = Db::open(folder.path().join("events.db")).await.unwrap();
    let hub = EventHub::new();
    hub.keep_in_db(db.clone()).await.unwrap();
    let reader = hub.reader("hook", &["a.*"], None).await.unwrap();
    assert_eq!((hub.subscriptions(), reader.waiting()), (2, 2));
    // The use of a subscription is stored at most once an hour, so let two hours pass.
    tokio::time::pause();
    tokio::time::advance(Duration::from_hours(2)).await;
    tokio::time::resume();
    for sql in [
        "UPDATE events_subscriptions SET used_at = 0",
        "UPDATE events_kept SET stored_at = 0 WHERE seq = 1",
    ] {
        db.write(move |tx| Ok(tx.execute(sql, [])?)).await.unwrap();
    }
    hub.remove_unused().await.unwrap();
    assert_eq!((hub.subscriptions(), reader.waiting()), (1, 1));
    publish(&hub, EventDraft::new("a.b")).await;
    assert_eq!(reader.read(9).await.unwrap().iter().map(|one| one.seq).collect::<Vec<_>>(), [2, 3]);
}
