//! Tests of what a log contains, and of its durability after an acknowledgement.

use std::time::Duration;

use mgp_testkit::until;
use mgp_types::mgp::{AuditEvent, RiskLevel};
use mgp_types::service::{AuditFuture, AuditOutcome, AuditSink as _};
use mgp_types::store::{Change, MemoryStore, Store as _};

use super::*;
use crate::audit::EventSource as _;
use crate::{DigestKey, Fsync};

#[tokio::test]
async fn an_acknowledged_event_is_in_the_file_and_in_the_head() {
    let (folder, log) = Folder::with_log().await;
    assert_eq!(log.outbox(&MemoryStore::new()), None, "it takes no events from a store");
    for (id, seq) in [("ada", 1), ("bob", 2)] {
        assert_eq!(log.append(&event(id)).await.unwrap(), seq);
        assert_eq!(folder.head().seq, seq);
        assert_eq!(folder.verify(), Ok(seq));
    }
    assert!(folder.lines()[0].starts_with(concat!(
        r#"{"seq":1,"no":1,"event":{"timestamp":"2026-03-04T05:06:07.089Z","event_type":"ACCESS_GRANTED","#,
        r#""actor":{"type":"user","id":"ada"},"result":"SUCCESS"},"hash":""#,
    )));
}

#[tokio::test]
async fn a_risky_call_is_on_disk_before_it_runs_and_a_safe_call_does_not_wait() {
    let (folder, log) = Folder::with_log().await;
    let safe = match log.begin(start("read", Some(RiskLevel::Safe), None)) {
        AuditFuture::Ready(ticket) => ticket.unwrap(),
        AuditFuture::Later(_) => panic!("a safe call waits"),
    };
    for risk in [Some(RiskLevel::Moderate), Some(RiskLevel::Dangerous), None] {
        let before = folder.lines().len();
        let ticket = log.begin(start("rm", risk, None)).await.unwrap();
        let lines = folder.lines();
        assert_eq!(lines.len(), before + 1);
        assert!(lines[before].contains(r#""intent":{"timestamp":"#), "{}", lines[before]);
        ticket.finish(AuditOutcome::ToolError);
        log.flush().await.unwrap();
        let intent = format!(r#""ends":{},"event":{{"#, before + 1);
        assert!(folder.lines()[before + 1].contains(&intent));
    }
    safe.finish(AuditOutcome::Success);
    log.flush().await.unwrap();
    assert_eq!(tools(&log).await.last().unwrap(), &("read".to_owned(), "SUCCESS".to_owned()));
    assert_eq!(folder.verify(), Ok(7));
}

#[tokio::test]
async fn the_end_of_a_safe_call_is_written_without_a_flush() {
    let (folder, log) = Folder::with_log().await;
    let mut newest = log.newest();
    call(&log, "read", RiskLevel::Safe).await;
    tokio::time::timeout(Duration::from_secs(5), newest.wait_for(|newest| *newest == 1))
        .await
        .unwrap()
        .unwrap();
    until("the head follows", async || folder.head().seq != 0).await;
    drop(log);
    assert_eq!(folder.head().seq, 1);
}

#[tokio::test]
async fn a_watched_log_sends_what_was_refused_and_changed_and_no_call_that_ran() {
    let (folder, store) = (Folder::new(), MemoryStore::new());
    let log = AuditLog::open(folder.config(), Some(shared(&store))).await.unwrap();
    let mut watched = log.watch();
    log.begin(start("read", Some(RiskLevel::Safe), None))
        .await
        .unwrap()
        .finish(AuditOutcome::Success);
    log.append(&event("ada")).await.unwrap();
    log.begin(start("rm", None, None)).await.unwrap().finish(AuditOutcome::Withdrawn);
    log.flush().await.unwrap();
    store.commit(Change::new().event("audit", event("bob"))).await.unwrap();
    log.flush().await.unwrap();
    let mut received = Vec::new();
    while let Ok((number, text)) = watched.try_recv() {
        let event: AuditEvent = text.get().unwrap();
        let stored = log.after(number - 1, 1).await.unwrap().remove(0);
        assert_eq!((&stored.event_type, &stored.actor), (&event.event_type, &event.actor));
        received.push(event.event_type.as_str().to_owned());
    }
    assert_eq!(received, ["ACCESS_GRANTED", "TOOL_BLOCKED", "ACCESS_GRANTED"]);
    assert_eq!(log.after(0, 9).await.unwrap().len(), 4);
}

#[tokio::test]
async fn rounds_of_one_call_are_one_intent_and_one_event() {
    let (folder, log) = Folder::with_log().await;
    log.begin(start("rm", None, Some("a"))).await.unwrap().suspend();
    log.begin(start("rm", None, Some("a"))).await.unwrap().suspend();
    log.begin(start("rm", None, Some("a"))).await.unwrap().finish(AuditOutcome::Success);
    // A call without a logical id cannot be continued by a later request.
    log.begin(start("rm", None, None)).await.unwrap().suspend();
    log.begin(start("rm", None, Some("b"))).await.unwrap().suspend();
    log.flush().await.unwrap();
    let events = log.query(crate::AuditQuery::new()).await.unwrap().events;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].details.as_ref().unwrap().decode::<u64>("rounds").unwrap(), Some(3));
    log.close().await.unwrap();
    let log = folder.open().await;
    let outcomes = tools(&log).await;
    assert_eq!(outcomes.len(), 2, "the suspended call ended with the log: {outcomes:?}");
    assert_eq!(outcomes[1].1, "FAILURE");
}

#[tokio::test]
async fn a_store_holds_the_head_and_its_events_are_written_once() {
    let (folder, store) = (Folder::new(), MemoryStore::new());
    let before = Change::new().event("audit", event("before")).event("other", event("not ours"));
    store.commit(before).await.unwrap();
    let log = AuditLog::open(folder.config(), Some(shared(&store))).await.unwrap();
    assert_eq!(log.outbox(&store), Some("audit"));
    assert_eq!(log.outbox(&MemoryStore::new()), None, "another store has its own outbox");
    for id in ["one", "two"] {
        store.commit(Change::new().event("audit", event(id))).await.unwrap();
    }
    let mut newest = log.newest();
    let all = newest.wait_for(|newest| *newest == 3);
    tokio::time::timeout(Duration::from_secs(5), all).await.unwrap().unwrap();
    log.flush().await.unwrap();
    assert!(store.pending_events("audit", 9).await.unwrap().is_empty());
    let head = LogHead::in_store(&store, "audit").await.unwrap().unwrap();
    assert_eq!(verify(&folder.dir, "audit", &head).unwrap(), 3);
    log.close().await.unwrap();
    let log = AuditLog::open(folder.config(), Some(shared(&store))).await.unwrap();
    let ids: Vec<_> =
        log.after(0, 9).await.unwrap().into_iter().map(|event| event.actor.id).collect();
    assert_eq!(ids, ["before", "one", "two"]);
}

#[tokio::test]
async fn an_event_written_but_not_settled_is_not_written_twice() {
    let (folder, store) = (Folder::new(), MemoryStore::new());
    let log = AuditLog::open(folder.config(), Some(shared(&store))).await.unwrap();
    store.commit(Change::new().event("audit", event("once"))).await.unwrap();
    log.newest().wait_for(|newest| *newest == 1).await.unwrap();
    log.close().await.unwrap();
    // Set up the state after a process died before it removed the event from the store.
    let again = MemoryStore::new();
    again.commit(Change::new().event("audit", event("once"))).await.unwrap();
    let head = store.load("audit").await.unwrap().records.remove(0).value.unwrap();
    again.commit(Change::new().put("audit", "audit", head)).await.unwrap();
    let log = AuditLog::open(folder.config(), Some(shared(&again))).await.unwrap();
    log.flush().await.unwrap();
    assert_eq!(tools(&log).await.len(), 1);
    assert!(again.pending_events("audit", 9).await.unwrap().is_empty());
}

#[tokio::test]
async fn two_logs_with_one_head_are_detected() {
    let (one, two, store) = (Folder::new(), Folder::new(), MemoryStore::new());
    let first = AuditLog::open(one.config(), Some(shared(&store))).await.unwrap();
    let second = AuditLog::open(two.config(), Some(shared(&store))).await.unwrap();
    first.record(event("a")).await.unwrap();
    assert!(second.record(event("b")).await.is_err());
}

#[tokio::test]
async fn a_second_opener_is_refused_until_the_first_is_gone() {
    let (folder, log) = Folder::with_log().await;
    let refused = AuditLog::open(folder.config(), None).await.unwrap_err();
    assert!(matches!(refused, LogError::InUse { .. }), "{refused}");
    let other = AuditLog::open(folder.config().name("other"), None).await.unwrap();
    other.record(event("ada")).await.unwrap();
    let handle = log.clone();
    drop(log);
    assert!(AuditLog::open(folder.config(), None).await.is_err());
    handle.close().await.unwrap();
    folder.open().await;
}

#[tokio::test]
async fn a_call_that_outlives_the_last_handle_is_still_recorded() {
    let (folder, log) = Folder::with_log().await;
    let ticket = log.begin(start("rm", None, None)).await.unwrap();
    drop(log);
    assert!(matches!(AuditLog::open(folder.config(), None).await, Err(LogError::InUse { .. })));
    ticket.finish(AuditOutcome::Success);
    let log = loop {
        match AuditLog::open(folder.config(), None).await {
            Ok(log) => break log,
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    assert_eq!(tools(&log).await, [("rm".to_owned(), "SUCCESS".to_owned())]);
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_may_use_a_log() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    fs::create_dir(&folder.dir).unwrap();
    let log = folder.open().await;
    log.record(event("ada")).await.unwrap();
    log.close().await.unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&folder.dir), 0o700, "an empty directory is made private");
    for file in folder.files() {
        assert_eq!(mode(&file), 0o600, "{file:?}");
    }
    let mut exposed = folder.segments();
    exposed.extend([folder.dir.join("audit.head"), folder.dir.clone()]);
    for path in exposed {
        let private = mode(&path);
        fs::set_permissions(&path, fs::Permissions::from_mode(private | 0o040)).unwrap();
        let refused = AuditLog::open(folder.config(), None).await.unwrap_err().to_string();
        assert!(refused.contains(&format!("`chmod {private:o}`")), "{refused}");
        fs::set_permissions(&path, fs::Permissions::from_mode(private)).unwrap();
    }
    let named = AuditLog::open(folder.config().name("../x"), None).await;
    assert!(matches!(named, Err(LogError::Name(_))));
}

#[tokio::test]
async fn every_record_is_synced_if_configured() {
    let folder = Folder::new();
    let log = AuditLog::open(folder.config().fsync(Fsync::Always), None).await.unwrap();
    let appended: Vec<_> = (0..50).map(|_| log.append(&event("ada")).into_future()).collect();
    for (appended, seq) in appended.into_iter().zip(1..) {
        assert_eq!(appended.await.unwrap(), seq);
    }
    assert_eq!(folder.verify(), Ok(50));
}

#[tokio::test]
async fn digests_of_one_key_can_be_compared_and_survive_the_process() {
    let folder = Folder::new();
    let config = || folder.config().digest_key(folder.dir.join("audit.key"));
    let log = AuditLog::open(config(), None).await.unwrap();
    let digest = log.digest_key().unwrap().digest("secret");
    assert_eq!(digest.len(), 32);
    log.close().await.unwrap();
    let log = AuditLog::open(config(), None).await.unwrap();
    assert_eq!(log.digest_key().unwrap().digest("secret"), digest);
    assert_ne!(DigestKey::new([7; 32]).digest("secret"), digest);
    assert!(folder.open_without_key(log).await);
    std::fs::write(folder.dir.join("audit.key"), "x").unwrap();
    let damaged = AuditLog::open(config(), None).await.unwrap_err().to_string();
    assert!(damaged.contains("audit.key` cannot be used: it is damaged; restore it"), "{damaged}");
}

impl Folder {
    async fn open_without_key(&self, log: AuditLog) -> bool {
        log.close().await.unwrap();
        self.open().await.digest_key().is_none()
    }
}
