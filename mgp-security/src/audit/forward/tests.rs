//! Tests that events reach every configured sink once and in order, even after failures.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use mgp_types::method::{AUDIT_REPLAY, AuditNotification, Notification};
use mgp_types::mgp::{Actor, AuditEvent, AuditReplayResult};
use mgp_types::service::{
    AuditSink, Call, CredentialGrant, MemoryAudit, Principal, Router, Stack, mock,
};
use mgp_types::store::{MemoryStore, Store as _, StoreError};
use mgp_types::{ErrorCode, RpcError};
use tokio::sync::watch;
use tokio::time::timeout;

use tower_layer::Layer as _;

use super::super::event::Event;
use super::super::source::EventSource;
use super::{Delivery, Forwarder, Ingest, POSITIONS, Replay};
use crate::KernelToolsLayer;

async fn write(log: &MemoryAudit, count: usize) {
    for number in 0..count {
        let event = Event::policy_changed(Actor::user("ada"), None).detail("number", &number);
        log.record(event.build()).await.unwrap();
    }
}

/// A sink that stores its events, and can be unreachable.
#[derive(Clone, Default)]
struct Archive(Arc<Kept>);

struct Kept {
    events: Mutex<BTreeMap<u64, AuditEvent>>,
    /// The number of every received event, in order of arrival.
    arrivals: Mutex<Vec<u64>>,
    is_away: AtomicBool,
    newest: watch::Sender<u64>,
}

impl Default for Kept {
    fn default() -> Self {
        Self {
            events: Mutex::default(),
            arrivals: Mutex::default(),
            is_away: AtomicBool::new(false),
            newest: watch::channel(0).0,
        }
    }
}

impl Archive {
    fn stack(&self) -> Stack {
        let own = self.clone();
        let replay = Replay::new(Arc::new(self.clone()), Arc::new(MemoryAudit::new()));
        let events = Router::new().on_notification::<AuditNotification, _, _>(move |_, event| {
            own.take(event);
            async { Ok(()) }
        });
        let router = KernelToolsLayer::new(replay.router_for_origin()).layer(events);
        let own = self.clone();
        Stack::from_fn(move |call: Call| {
            let away = own.0.is_away.load(Ordering::SeqCst);
            let answering = (!away).then(|| Stack::new(router.clone()).send(call));
            async move {
                let gone = || RpcError::new(ErrorCode::SERVER_NOT_READY, "connection closed");
                answering.ok_or_else(gone)?.await
            }
        })
    }

    fn take(&self, event: AuditEvent) {
        let seq = event.mgp.as_ref().unwrap().seq.unwrap();
        self.0.arrivals.lock().unwrap().push(seq);
        self.0.events.lock().unwrap().insert(seq, event);
        self.0.newest.send_modify(|newest| *newest = seq.max(*newest));
    }

    fn arrivals(&self) -> Vec<u64> {
        self.0.arrivals.lock().unwrap().clone()
    }
}

#[async_trait]
impl EventSource for Archive {
    async fn after(&self, seq: u64, most: usize) -> Result<Vec<AuditEvent>, StoreError> {
        let events = self.0.events.lock().unwrap();
        let found = events.range(seq + 1..).take(most).map(|(_, event)| event.clone()).collect();
        Ok(found)
    }

    fn newest(&self) -> watch::Receiver<u64> {
        self.0.newest.subscribe()
    }
}

fn forwarder(log: &MemoryAudit, store: &MemoryStore, confirm: Delivery) -> Forwarder {
    Forwarder::new(Arc::new(log.clone()), Arc::new(store.clone())).sink("archive", confirm)
}

async fn reaches(forwarding: &mut super::Forwarding, seq: u64) {
    timeout(Duration::from_mins(10), forwarding.wait_for(seq)).await.unwrap();
    assert_eq!(forwarding.delivered(), seq);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_events_come_in_order_each_once() {
    for confirm in [Delivery::Sent, Delivery::Confirmed] {
        let (log, store, archive) = (MemoryAudit::new(), MemoryStore::new(), Archive::default());
        write(&log, 500).await;
        let forwarder = forwarder(&log, &store, confirm);
        let mut forwarding = forwarder.forward("archive", archive.stack()).unwrap();
        write(&log, 500).await;
        reaches(&mut forwarding, 1000).await;
        assert_eq!(archive.arrivals(), (1..=1000).collect::<Vec<_>>());
    }
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_was_away_loses_nothing() {
    let (log, store, archive) = (MemoryAudit::new(), MemoryStore::new(), Archive::default());
    let forwarder = forwarder(&log, &store, Delivery::Sent);
    let mut forwarding = forwarder.forward("archive", archive.stack()).unwrap();
    write(&log, 10).await;
    reaches(&mut forwarding, 10).await;
    archive.0.is_away.store(true, Ordering::SeqCst);
    write(&log, 250).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(forwarding.delivered(), 10);
    archive.0.is_away.store(false, Ordering::SeqCst);
    reaches(&mut forwarding, 260).await;
    assert_eq!(archive.arrivals(), (1..=260).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn events_that_the_log_removed_do_not_wait_for_a_sink() {
    let (log, kept, archive) = (MemoryAudit::new(), Archive::default(), Archive::default());
    write(&log, 6).await;
    for event in log.after(4, 10) {
        kept.take(event);
    }
    archive.0.is_away.store(true, Ordering::SeqCst);
    let store = MemoryStore::new();
    let forwarder = Forwarder::new(Arc::new(kept), Arc::new(store.clone()));
    let forwarder = forwarder.sink("archive", Delivery::Sent);
    let mut forwarding = forwarder.forward("archive", archive.stack()).unwrap();
    reaches(&mut forwarding, 4).await;
    let saved = store.load(POSITIONS).await.unwrap().records.remove(0).value.unwrap();
    assert_eq!(saved.as_str(), "4", "the next process does not report the lost events again");
    archive.0.is_away.store(false, Ordering::SeqCst);
    reaches(&mut forwarding, 6).await;
    assert_eq!(archive.arrivals(), [5, 6]);
}

#[tokio::test(start_paused = true)]
async fn a_restart_goes_on_where_the_sink_is() {
    let (log, store, archive) = (MemoryAudit::new(), MemoryStore::new(), Archive::default());
    write(&log, 30).await;
    let mut forwarding =
        forwarder(&log, &store, Delivery::Sent).forward("archive", archive.stack()).unwrap();
    reaches(&mut forwarding, 30).await;
    // Wait until the progress is saved, which happens once a second.
    tokio::time::sleep(Duration::from_secs(2)).await;
    drop(forwarding);
    write(&log, 5).await;
    let mut forwarding =
        forwarder(&log, &store, Delivery::Sent).forward("archive", archive.stack()).unwrap();
    reaches(&mut forwarding, 35).await;
    assert_eq!(archive.arrivals(), (1..=35).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_forwarding_that_was_stopped_is_continued_without_repeating_an_event() {
    let (log, store, archive) = (MemoryAudit::new(), MemoryStore::new(), Archive::default());
    let start =
        || forwarder(&log, &store, Delivery::Sent).forward("archive", archive.stack()).unwrap();
    for count in [30, 5] {
        write(&log, count).await;
        let forwarding = start();
        forwarding.stop().await;
    }
    assert_eq!(archive.arrivals(), (1..=35).collect::<Vec<_>>());
    // A sink that accepts no events does not delay the end of the forwarding.
    let mut forwarding = start();
    write(&log, 2).await;
    reaches(&mut forwarding, 37).await;
    archive.0.is_away.store(true, Ordering::SeqCst);
    write(&log, 3).await;
    timeout(Duration::from_secs(1), forwarding.stop()).await.unwrap();
    archive.0.is_away.store(false, Ordering::SeqCst);
    reaches(&mut start(), 40).await;
    assert_eq!(archive.arrivals(), (1..=40).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_no_operator_added_gets_no_events() {
    let (log, store, archive) = (MemoryAudit::new(), MemoryStore::new(), Archive::default());
    let forwarder = forwarder(&log, &store, Delivery::Sent);
    let refused = forwarder.forward("garden", archive.stack()).unwrap_err();
    assert!(refused.to_string().contains("`garden` gets no audit events"));
    let replay = Replay::new(Arc::new(log.clone()), Arc::new(log.clone()));
    let mut garden = mock::client(Stack::new(replay.router_for("garden", &forwarder)));
    let call = r#"{"name":"mgp.audit.replay"}"#;
    assert_eq!(garden.request("tools/call", call).await.unwrap_err().code().0, 1000);
}

#[tokio::test(start_paused = true)]
async fn a_new_connection_takes_over() {
    let (log, store) = (MemoryAudit::new(), MemoryStore::new());
    let (first, second) = (Archive::default(), Archive::default());
    let forwarder = forwarder(&log, &store, Delivery::Sent);
    let mut old = forwarder.forward("archive", first.stack()).unwrap();
    write(&log, 3).await;
    reaches(&mut old, 3).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut new = forwarder.forward("archive", second.stack()).unwrap();
    write(&log, 3).await;
    reaches(&mut new, 6).await;
    // The wait ends although this forwarding never delivers event 6: it was replaced.
    timeout(Duration::from_secs(1), old.wait_for(6)).await.unwrap();
    assert_eq!((first.arrivals(), second.arrivals()), (vec![1, 2, 3], vec![4, 5, 6]));
}

#[tokio::test(start_paused = true)]
async fn a_new_log_is_sent_from_its_beginning() {
    let (store, archive) = (MemoryStore::new(), Archive::default());
    for count in [20, 4] {
        let log = MemoryAudit::new();
        write(&log, count).await;
        let forwarder = forwarder(&log, &store, Delivery::Sent);
        let mut forwarding = forwarder.forward("archive", archive.stack()).unwrap();
        reaches(&mut forwarding, count as u64).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    assert_eq!(archive.arrivals().len(), 24);
}

// === Replay ===

async fn ask(log: &MemoryAudit, params: &str) -> Result<AuditReplayResult, RpcError> {
    let replay = Replay::new(Arc::new(log.clone()), Arc::new(MemoryAudit::new()));
    let mut client = mock::client(Stack::new(replay.router()));
    client.cx.principal = Principal::local().operator();
    client.request(AUDIT_REPLAY, params).await?.get()
}

async fn check(log: &MemoryAudit, params: &str, expected: &[u64], has_more: bool) {
    let answer = ask(log, params).await.unwrap();
    let numbers: Vec<_> =
        answer.events.iter().map(|event| event.mgp.as_ref().unwrap().seq.unwrap()).collect();
    assert_eq!((numbers.as_slice(), answer.has_more), (expected, has_more), "{params}");
    if let Some(last) = expected.last() {
        assert_eq!(answer.next_seq, Some(*last));
    }
}

#[tokio::test]
async fn replay_answers_pages() {
    let log = MemoryAudit::new();
    write(&log, 150).await;
    let range = |from, to| (from..=to).collect::<Vec<u64>>();
    check(&log, "{}", &range(1, 100), true).await;
    check(&log, r#"{"since_seq":100}"#, &range(101, 150), false).await;
    check(&log, r#"{"since_seq":50,"limit":100}"#, &range(51, 150), false).await;
    check(&log, r#"{"since_seq":7,"limit":2}"#, &[8, 9], true).await;
    check(&log, r#"{"since_seq":0,"limit":5000}"#, &range(1, 150), false).await;
    check(&log, r#"{"since_seq":150}"#, &[], false).await;
    for wrong in [r#"{"limit":0}"#, r#"{"since_timestamp":"noon"}"#, r#"{"since_seq":-1}"#] {
        assert_eq!(ask(&log, wrong).await.unwrap_err().code(), ErrorCode::INVALID_PARAMS);
    }
}

#[tokio::test]
async fn replay_finds_a_time_although_clocks_go_back() {
    let log = MemoryAudit::new();
    let second = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds);
    // The clock is set back by half a minute twice, so the times of the events are not ascending.
    let times: Vec<u64> =
        (0..400).map(|n| if n % 200 == 150 { n * 10 - 30 } else { n * 10 }).collect();
    for time in &times {
        let event = Event::policy_changed(Actor::kernel(), None).at(second(*time));
        log.record(event.build()).await.unwrap();
    }
    for since in [0, 5, 1470, 1485, 1500, 3000, 3985, 4000] {
        let later = (1..).zip(&times).filter(|(_, time)| **time > since);
        let expected: Vec<u64> = later.map(|(number, _)| number).collect();
        let at = humantime(second(since));
        let params = format!(r#"{{"since_timestamp":"{at}","limit":1000}}"#);
        check(&log, &params, &expected, false).await;
    }
}

fn humantime(time: SystemTime) -> String {
    mgp_types::Timestamp::from(time).as_str().to_owned()
}

#[tokio::test]
async fn replay_stops_before_an_answer_gets_too_large() {
    let log = MemoryAudit::new();
    let long = "x".repeat(100_000);
    for _ in 0..12 {
        let event = Event::policy_changed(Actor::kernel(), None).detail("after", &long);
        log.record(event.build()).await.unwrap();
    }
    check(&log, "{}", &[1, 2, 3, 4, 5], true).await;
    check(&log, r#"{"since_seq":10}"#, &[11, 12], false).await;
}

#[tokio::test]
async fn a_refused_replay_is_recorded() {
    let (log, own) = (MemoryAudit::new(), MemoryAudit::new());
    write(&log, 1).await;
    let replay = Replay::new(Arc::new(log), Arc::new(own.clone()));
    let stack = KernelToolsLayer::new(replay.router()).layer(replay.router());
    let mut client = mock::client(Stack::new(stack));
    client.cx.principal = Principal::new("acme", "eve").agent("agent.one");
    for (method, params) in [
        (AUDIT_REPLAY, "{}"),
        ("tools/call", r#"{"name":"mgp.audit.replay"}"#),
        ("tools/call", r#"{"name":"mgp/audit/replay","arguments":{}}"#),
    ] {
        assert_eq!(client.request(method, params).await.unwrap_err().code().0, 1000);
    }
    let events = own.events();
    assert_eq!(events.len(), 3);
    let details = serde_json::to_string(&events[0].details).unwrap();
    assert_eq!(
        details,
        r#"{"tenant":"acme","user":"eve","method":"mgp.audit.replay","code":1000,"reason":"PERMISSION_DENIED","rule":"operators only"}"#
    );
}

#[tokio::test]
async fn a_refused_replay_of_a_recorded_call_is_denied_once() {
    let log = MemoryAudit::new();
    let replay = Replay::new(Arc::new(log.clone()), Arc::new(log.clone()));
    let stack = crate::AuditLayer::new(Arc::new(log.clone()))
        .layer(KernelToolsLayer::new(replay.router()).layer(Router::new()));
    let mut client = mock::client(Stack::new(stack));
    let refused = client.request("tools/call", r#"{"name":"mgp.audit.replay"}"#).await;
    assert_eq!(refused.unwrap_err().code().0, 1000);
    let events = log.events();
    let types: Vec<_> = events.iter().map(|event| event.event_type.as_str()).collect();
    assert_eq!(types, ["TOOL_BLOCKED", "PERMISSION_DENIED"]);
}

#[tokio::test]
async fn a_key_for_tools_reads_no_log_although_its_holder_is_an_operator() {
    let log = MemoryAudit::new();
    let replay = Replay::new(Arc::new(log.clone()), Arc::new(log));
    let mut client = mock::client(Stack::new(replay.router()));
    client.cx.principal = Principal::local().operator();
    for (words, is_good) in [("tools.call", false), ("admin.read", true)] {
        client.cx.extensions.insert(CredentialGrant::new([words], || true));
        assert_eq!(client.request(AUDIT_REPLAY, "{}").await.is_ok(), is_good, "{words}");
    }
}

#[tokio::test]
async fn replay_beside_tools_takes_none_of_their_calls() {
    let log = MemoryAudit::new();
    let replay = Replay::new(Arc::new(log.clone()), Arc::new(log));
    assert_eq!(replay.router().methods().collect::<Vec<_>>(), [AUDIT_REPLAY]);
    assert_eq!(replay.router_for_origin().methods().collect::<Vec<_>>(), [AUDIT_REPLAY]);
}

// === Ingest ===

fn claim(seq: usize) -> String {
    format!(
        r#"{{"timestamp":"2020-01-01T00:00:00Z","event_type":"ACCESS_GRANTED","result":"SUCCESS","trace_id":"trace-77","actor":{{"type":"user","id":"ada"}},"target":{{"server_id":"bank","tool_name":"pay"}},"details":{{"a":1}},"_mgp":{{"seq":{seq}}}}}"#
    )
}

#[tokio::test(start_paused = true)]
async fn an_event_of_a_server_has_the_server_as_actor() {
    let foreign = MemoryAudit::new();
    let router = Ingest::new(Arc::new(foreign.clone())).router("garden");
    let mut server = mock::client(Stack::new(router));
    server.notify(AuditNotification::METHOD, &claim(41)).await.unwrap();
    let mut event = foreign.events().remove(0);
    event.timestamp = "2026-03-04T05:06:07.089Z".into();
    assert_eq!(
        serde_json::to_string(&event).unwrap(),
        concat!(
            r#"{"timestamp":"2026-03-04T05:06:07.089Z","trace_id":"trace-77","event_type":"ACCESS_GRANTED","#,
            r#""actor":{"type":"server","id":"garden"},"target":{"server_id":"garden","tool_name":"pay"},"#,
            r#""result":"SUCCESS","details":{"a":1,"claimed":{"timestamp":"2020-01-01T00:00:00Z","#,
            r#""actor":{"type":"user","id":"ada"},"server_id":"bank","seq":41}}}"#
        )
    );
}

#[tokio::test(start_paused = true)]
async fn excess_events_of_a_server_are_dropped_and_counted() {
    let foreign = MemoryAudit::new();
    let router = Ingest::new(Arc::new(foreign.clone())).router("garden");
    let mut server = mock::client(Stack::new(router));
    let count = |kind: &str| {
        let events = foreign.events();
        events.iter().filter(|event| event.event_type.as_str() == kind).count()
    };
    for number in 0..1000 {
        server.notify(AuditNotification::METHOD, &claim(number)).await.unwrap();
    }
    assert_eq!((count("ACCESS_GRANTED"), count("dev.cloto.events_dropped")), (200, 1));
    tokio::time::advance(Duration::from_secs(2)).await;
    for number in 0..300 {
        server.notify(AuditNotification::METHOD, &claim(number)).await.unwrap();
    }
    assert_eq!(count("ACCESS_GRANTED"), 300);
    tokio::time::advance(Duration::from_mins(1)).await;
    let large = claim(0).replace("\"a\":1", &format!("\"a\":\"{}\"", "x".repeat(20_000)));
    for wrong in [large.as_str(), "{}"] {
        server.notify(AuditNotification::METHOD, wrong).await.unwrap();
    }
    assert_eq!((count("ACCESS_GRANTED"), count("dev.cloto.events_dropped")), (300, 2));
    let reported = foreign.events().pop().unwrap().details.unwrap();
    // The sum of the unreported drops: 799 of the first thousand events, 200 of the next, and the large event.
    assert_eq!(reported.decode::<u64>("count").unwrap(), Some(1000));
}

#[tokio::test]
async fn servers_have_allowances_of_their_own() {
    let foreign = MemoryAudit::new();
    let ingest = Ingest::new(Arc::new(foreign.clone()));
    for server in ["garden", "shed"] {
        let mut client = mock::client(Stack::new(ingest.router(server)));
        for number in 0..200 {
            client.notify(AuditNotification::METHOD, &claim(number)).await.unwrap();
        }
    }
    let kept = foreign.events();
    assert!(kept.iter().all(|event| event.event_type.as_str() == "ACCESS_GRANTED"));
    assert_eq!(kept.len(), 400);
}
