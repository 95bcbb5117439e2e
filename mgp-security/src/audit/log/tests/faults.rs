//! Tests with disks and stores that fail, and with logs that are full.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use mgp_testkit::{FaultyStore, Stopwatch, store_busy, until};
use mgp_types::service::{AuditError, AuditFuture, Principal};
use mgp_types::store::{Change, MemoryStore};
use tokio::sync::oneshot;

use super::super::queue::{Item, LogQueue, Reservation};
use super::super::segments::{Disk, SegmentFile};
use super::*;
use crate::Fsync;
use crate::audit::EventSource as _;

/// A disk that can be set to full; it then writes half of the bytes and fails.
struct Flaky {
    inner: SegmentFile,
    full: Arc<AtomicBool>,
}

impl Flaky {
    async fn open(folder: &Folder) -> (AuditLog, Arc<AtomicBool>) {
        let full = Arc::new(AtomicBool::new(false));
        let disk_full = Arc::clone(&full);
        let log = AuditLog::open_on(folder.config().segment_bytes(3000), None, move |inner| {
            Box::new(Self { inner, full: disk_full })
        });
        (log.await.unwrap(), full)
    }

    fn works(&self) -> io::Result<()> {
        if self.full.load(Ordering::Relaxed) {
            Err(io::ErrorKind::StorageFull.into())
        } else {
            Ok(())
        }
    }
}

impl Disk for Flaky {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.works().is_err() {
            self.inner.append(&bytes[..bytes.len() / 2])?;
        }
        self.works()?;
        self.inner.append(bytes)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.inner.cut(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.works()?;
        self.inner.sync()
    }

    fn next(&mut self, first: u64) -> io::Result<()> {
        self.works()?;
        self.inner.next(first)
    }

    fn remove_before(&mut self, from: u64) -> io::Result<()> {
        self.works()?;
        self.inner.remove_before(from)
    }
}

/// A disk that counts syncs, and blocks during each of them until the test releases it.
struct Slow {
    inner: SegmentFile,
    syncs: Arc<AtomicUsize>,
    hold: mpsc::Receiver<()>,
}

impl Slow {
    async fn open(folder: &Folder, fsync: Fsync) -> (AuditLog, Arc<AtomicUsize>, mpsc::Sender<()>) {
        let (let_go, hold) = mpsc::channel();
        let syncs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&syncs);
        let log = AuditLog::open_on(folder.config().fsync(fsync), None, move |inner| {
            Box::new(Self { inner, syncs: counted, hold })
        });
        if fsync == Fsync::Always {
            // The records that are written while the log opens are synced before `open` returns.
            let_go.send(()).unwrap();
        }
        (log.await.unwrap(), syncs, let_go)
    }
}

impl Disk for Slow {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.inner.append(bytes)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.inner.cut(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        // Blocks until the test releases this sync. Once the test has dropped the sender, `recv` no longer blocks.
        let _ = self.hold.recv();
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.inner.sync()
    }

    fn next(&mut self, first: u64) -> io::Result<()> {
        self.inner.next(first)
    }

    fn remove_before(&mut self, from: u64) -> io::Result<()> {
        self.inner.remove_before(from)
    }
}

/// Creates a log whose process was killed while it wrote a line.
async fn torn() -> Folder {
    let (folder, log) = Folder::with_log().await;
    log.record(event("one")).await.unwrap();
    log.close().await.unwrap();
    let path = folder.segments().remove(0);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, [&whole, &b"{\"seq\":"[..]].concat()).unwrap();
    folder
}

#[tokio::test]
async fn the_first_caller_does_not_wait_for_the_disk_of_a_log_that_was_cut() {
    let folder = torn().await;
    let (log, syncs, let_go) = Slow::open(&folder, Fsync::OnCheckpoint).await;
    let acknowledged =
        tokio::time::timeout(Duration::from_secs(10), log.record(event("two")).into_future());
    acknowledged.await.unwrap().unwrap();
    assert_eq!(syncs.load(Ordering::Relaxed), 0);
    assert!(folder.verify().is_ok(), "it survives a killed process");
    drop(let_go);
    log.flush().await.unwrap();
    assert_eq!(syncs.load(Ordering::Relaxed), 1, "the disk is synced");
    log.close().await.unwrap();
    assert_eq!(folder.verify(), Ok(3));
}

#[tokio::test]
async fn records_of_opening_reach_the_disk_although_no_other_follows() {
    let folder = torn().await;
    let (log, syncs, let_go) = Slow::open(&folder, Fsync::OnCheckpoint).await;
    drop(let_go);
    until("the log is synced", async || syncs.load(Ordering::Relaxed) != 0).await;
    drop(log);
}

#[tokio::test]
async fn with_fsync_always_a_caller_waits_for_the_disk_after_a_cut_too() {
    let folder = torn().await;
    let (log, syncs, let_go) = Slow::open(&folder, Fsync::Always).await;
    assert_eq!(syncs.load(Ordering::Relaxed), 1, "the checkpoint that records the cut");
    let mut waiting = log.record(event("two")).into_future();
    let early = tokio::time::timeout(Duration::from_millis(50), &mut waiting).await;
    assert!(early.is_err(), "it was acknowledged before it was on the disk");
    let_go.send(()).unwrap();
    waiting.await.unwrap();
    assert_eq!(syncs.load(Ordering::Relaxed), 2);
    drop((let_go, log));
}

async fn until_written(log: &AuditLog) {
    until("the log is written", async || log.flush().await.is_ok()).await;
}

#[tokio::test]
async fn while_the_disk_fails_no_call_begins_and_running_calls_are_recorded_later() {
    let folder = Folder::new();
    let (log, full) = Flaky::open(&folder).await;
    log.record(event("before")).await.unwrap();
    let safe = log.begin(start("safe", Some(RiskLevel::Safe), None)).await.unwrap();
    let risky = log.begin(start("risky", None, None)).await.unwrap();
    for round in 0..3 {
        full.store(true, Ordering::Relaxed);
        let refused = log.record(event("lost")).await.unwrap_err();
        assert!(matches!(refused, AuditError::Failed(_)), "{refused}");
        for risk in [RiskLevel::Safe, RiskLevel::Dangerous] {
            let refused = log.begin(start("not run", Some(risk), None)).await.unwrap_err();
            assert!(matches!(refused, AuditError::Failed(_)), "{refused}");
        }
        full.store(false, Ordering::Relaxed);
        until_written(&log).await;
        for id in 0..5 {
            log.record(event(&format!("{round}-{id}"))).await.unwrap();
        }
    }
    full.store(true, Ordering::Relaxed);
    assert!(log.record(event("lost")).await.is_err());
    safe.finish(AuditOutcome::Success);
    risky.finish(AuditOutcome::ToolError);
    full.store(false, Ordering::Relaxed);
    until_written(&log).await;
    let text = folder.lines().join("\n");
    assert!(!text.contains("lost") && !text.contains("not run"));
    assert!(folder.verify().is_ok());
    let outcomes = tools(&log).await;
    assert_eq!(outcomes.len(), 1 + 15 + 2);
    assert_eq!(
        outcomes[16..],
        [("safe".into(), "SUCCESS".into()), ("risky".into(), "FAILURE".into())]
    );
    log.close().await.unwrap();
    assert_eq!(tools(&folder.open().await).await.len(), 18, "no call was left without an end");
}

#[cfg(unix)]
#[tokio::test]
async fn while_the_file_is_moved_replaced_or_shortened_no_call_begins() {
    let (folder, log) = Folder::with_log().await;
    log.record(event("first")).await.unwrap();
    let refused = async || {
        let refused = log.record(event("lost")).await.unwrap_err();
        assert!(matches!(refused, AuditError::Failed(_)), "{refused}");
        assert!(log.begin(start("not run", None, None)).await.is_err());
    };
    let (path, away) = (folder.segments().remove(0), folder.dir.join("away"));
    for is_replaced in [false, true] {
        fs::rename(&path, &away).unwrap();
        if is_replaced {
            fs::copy(&away, &path).unwrap();
        }
        refused().await;
        fs::rename(&away, &path).unwrap();
        until_written(&log).await;
    }
    log.record(event("second")).await.unwrap();
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..9]).unwrap();
    refused().await;
    fs::write(&path, whole).unwrap();
    until_written(&log).await;
    log.record(event("third")).await.unwrap();
    log.close().await.unwrap();
    let text = folder.lines().join("\n");
    assert!(folder.verify().is_ok());
    assert!(!text.contains("lost") && !text.contains("not run"), "{text}");
}

#[tokio::test]
async fn an_intent_that_fails_leaves_no_trace_of_a_call_that_did_not_run() {
    let folder = Folder::new();
    let (log, full) = Flaky::open(&folder).await;
    full.store(true, Ordering::Relaxed);
    assert!(log.failure().is_none());
    assert!(log.begin(start("not run", None, None)).await.is_err());
    assert!(matches!(log.failure(), Some(AuditError::Failed(_))));
    full.store(false, Ordering::Relaxed);
    until_written(&log).await;
    until("the log works again", async || log.failure().is_none()).await;
    log.close().await.unwrap();
    let log = folder.open().await;
    assert!(tools(&log).await.is_empty());
}

#[tokio::test]
async fn a_log_that_is_closed_while_its_disk_fails_does_not_hang() {
    let folder = Folder::new();
    let (log, full) = Flaky::open(&folder).await;
    let ticket = log.begin(start("safe", Some(RiskLevel::Safe), None)).await.unwrap();
    full.store(true, Ordering::Relaxed);
    ticket.finish(AuditOutcome::Success);
    assert!(log.flush().await.is_err());
    let began = Stopwatch::start();
    drop(log);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    let mut again = None;
    until("the log can be opened again", async || {
        again = AuditLog::open(folder.config(), None).await.ok();
        again.is_some()
    })
    .await;
    again.unwrap().record(event("after")).await.unwrap();
}

#[tokio::test]
async fn a_full_queue_lets_calls_wait_and_then_refuses_them() {
    let folder = Folder::new();
    let log = AuditLog::open(folder.config().queue(2), None).await.unwrap();
    let safe = || log.begin(start("safe", Some(RiskLevel::Safe), None));
    let (one, two) = (safe().await.unwrap(), safe().await.unwrap());
    let began = tokio::time::Instant::now();
    let refused = safe().await.unwrap_err();
    assert!(matches!(refused, AuditError::Full), "{refused}");
    assert!(began.elapsed() >= Duration::from_millis(450));
    // Two calls may wait, and the next call is refused immediately. A queued event counts as one of these waiting
    // calls, too.
    let waits = [safe(), safe()];
    assert!(matches!(safe(), AuditFuture::Ready(Err(AuditError::Full))));
    assert!(matches!(log.record(event("x")), AuditFuture::Ready(Err(AuditError::Full))));
    one.finish(AuditOutcome::Success);
    let mut tickets = Vec::new();
    let [first, second] = waits;
    tickets.push(first.await.unwrap());
    // The caller of the second call stops waiting. This is recorded, because the call had a place in the queue.
    drop(second);
    log.record(event("fits")).await.unwrap();
    two.finish(AuditOutcome::Success);
    tickets.push(safe().await.unwrap());
    for ticket in tickets {
        ticket.finish(AuditOutcome::Success);
    }
    log.flush().await.unwrap();
    let outcomes = tools(&log).await;
    assert_eq!(outcomes.len(), 6, "{outcomes:?}");
    assert_eq!(outcomes.iter().filter(|(_, result)| result == "FAILURE").count(), 1);
    // All the reserved room was released, so two calls fit again.
    let again = (safe().await.unwrap(), safe().await.unwrap());
    drop(again);
}

/// Creates a store that can be set to fail its commits. A failed commit changes nothing, unless `is_lying` is set: then
/// it takes effect nevertheless.
fn broken(is_lying: &Arc<AtomicBool>) -> FaultyStore {
    let is_lying = Arc::clone(is_lying);
    FaultyStore::default().on_commit(move |store, change| {
        if !store.is_failing() {
            return store.inner().commit(change);
        }
        if is_lying.load(Ordering::Relaxed) {
            drop(store.inner().commit(change));
        }
        store_busy("it is broken")
    })
}

#[tokio::test]
async fn nothing_is_acknowledged_while_the_store_does_not_keep_the_head() {
    let is_lying = Arc::default();
    let (folder, store) = (Folder::new(), broken(&is_lying));
    let log = AuditLog::open(folder.config(), Some(shared(&store))).await.unwrap();
    log.record(event("one")).await.unwrap();
    for lying in [false, true] {
        is_lying.store(lying, Ordering::Relaxed);
        store.set_failing(true);
        assert!(log.record(event("lost")).await.is_err());
        assert!(log.begin(start("not run", None, None)).await.is_err());
        assert!(log.begin(start("not run", Some(RiskLevel::Safe), None)).await.is_err());
        store.set_failing(false);
        until_written(&log).await;
        log.record(event("two")).await.unwrap();
    }
    assert_eq!(*log.newest().borrow(), 3);
    let head = LogHead::in_store(&store, "audit").await.unwrap().unwrap();
    verify(&folder.dir, "audit", &head).unwrap();
    assert!(!folder.lines().join("\n").contains("lost"));
}

#[tokio::test]
async fn a_flush_waits_for_what_was_committed_for_the_log() {
    // Only the thread that writes the log reads pending events, so the delay blocks nothing else.
    let store = FaultyStore::default().pending_delay(Duration::from_millis(50));
    let folder = Folder::new();
    let log = AuditLog::open(folder.config(), Some(shared(&store))).await.unwrap();
    store.commit(Change::new().event("audit", event("one"))).await.unwrap();
    log.flush().await.unwrap();
    let head = LogHead::in_store(&store, "audit").await.unwrap().unwrap();
    assert_eq!((tools(&log).await.len(), verify(&folder.dir, "audit", &head).unwrap()), (1, 1));
}

#[tokio::test]
async fn a_log_whose_store_lost_the_head_is_not_continued() {
    let folder = Folder::new();
    for (store, matches) in [(MemoryStore::new(), true), (MemoryStore::new(), false)] {
        let log = AuditLog::open(folder.config(), Some(shared(&store))).await;
        assert_eq!(log.is_ok(), matches);
        if let Ok(log) = log {
            log.record(event("one")).await.unwrap();
        }
    }
}

#[tokio::test]
async fn only_an_event_of_invalid_json_or_excess_length_is_refused() {
    let (folder, log) = Folder::with_log().await;
    let mut odd = event("ada");
    let details = odd.details.insert(mgp_types::Object::new());
    details.insert("x", mgp_types::Payload::from_trusted("{"));
    assert!(log.record(odd.clone()).await.is_err());
    details_of(&mut odd).insert("x", mgp_types::Payload::of(&"x".repeat(2_000_000)).unwrap());
    assert!(log.record(odd.clone()).await.is_err());
    details_of(&mut odd).insert("x", mgp_types::Payload::parse("{\n\r\"a\":\n1}").unwrap());
    log.record(odd).await.unwrap();
    assert_eq!((folder.lines().len(), folder.verify()), (1, Ok(1)));
}

fn details_of(event: &mut AuditEvent) -> &mut mgp_types::Object {
    event.details.as_mut().unwrap()
}

#[tokio::test]
async fn an_event_of_the_store_that_cannot_be_encoded_blocks_no_other() {
    let (folder, store) = (Folder::new(), MemoryStore::new());
    let log = AuditLog::open(folder.config(), Some(shared(&store))).await.unwrap();
    let mut odd = event("odd");
    odd.details.insert(mgp_types::Object::new()).insert("x", mgp_types::Payload::from_trusted("{"));
    store.commit(Change::new().event("audit", odd).event("audit", event("next"))).await.unwrap();
    let mut newest = log.newest();
    let both = newest.wait_for(|newest| *newest == 2);
    tokio::time::timeout(Duration::from_secs(5), both).await.unwrap().unwrap();
    let ids: Vec<_> = log.after(0, 9).await.unwrap().into_iter().map(|it| it.actor.id).collect();
    assert_eq!(ids, ["odd", "next"]);
}

/// Writes a log that consists of several files with checkpoints; returns the heads that were saved while it grew.
async fn with_heads(folder: &Folder, store: &MemoryStore) -> Vec<mgp_types::Payload> {
    let mut config = folder.config();
    (config.checkpoint_every, config.segment_bytes) = (4, 2048);
    let log = AuditLog::open(config, Some(shared(store))).await.unwrap();
    let mut heads = Vec::new();
    for number in 0..30 {
        log.record(event(&format!("n{number}"))).await.unwrap();
        let head = store.load("audit").await.unwrap().records.remove(0).value.unwrap();
        heads.push(head);
    }
    log.close().await.unwrap();
    heads
}

/// Creates a store that contains only the given head.
async fn with_head(head: mgp_types::Payload) -> MemoryStore {
    let store = MemoryStore::new();
    store.commit(Change::new().put("audit", "audit", head)).await.unwrap();
    store
}

#[tokio::test]
async fn an_older_head_after_a_power_cut_does_not_prevent_opening() {
    for lost in [1, 5, 29] {
        let (folder, store) = (Folder::new(), MemoryStore::new());
        let mut heads = with_heads(&folder, &store).await;
        assert!(folder.segments().len() > 2);
        let store = with_head(heads.swap_remove(29 - lost)).await;
        let log = AuditLog::open(folder.config(), Some(shared(&store))).await.unwrap();
        log.record(event("later")).await.unwrap();
        assert_eq!(log.after(0, 99).await.unwrap().len(), 31, "no written record is lost");
        let head = LogHead::in_store(&store, "audit").await.unwrap().unwrap();
        verify(&folder.dir, "audit", &head).unwrap();
    }
}

#[tokio::test]
async fn records_after_an_older_head_must_continue_it() {
    let (folder, store) = (Folder::new(), MemoryStore::new());
    let heads = with_heads(&folder, &store).await;
    // A different log with the same name has other records under the same numbers, so its head does not fit this log.
    let (other, others) = (Folder::new(), MemoryStore::new());
    let log = AuditLog::open(other.config(), Some(shared(&others))).await.unwrap();
    log.record(event("forged")).await.unwrap();
    log.close().await.unwrap();
    let forged = others.load("audit").await.unwrap().records.remove(0).value.unwrap();
    let refused = AuditLog::open(folder.config(), Some(shared(&with_head(forged).await))).await;
    assert!(matches!(refused, Err(LogError::BadRecord(_))), "{refused:?}");

    // A record between the head and the last checkpoint was changed.
    let first = &folder.segments()[0];
    let text = fs::read_to_string(first).unwrap().replace("\"n2\"", "\"x2\"");
    fs::write(first, text).unwrap();
    let store = with_head(heads[0].clone()).await;
    let refused = AuditLog::open(folder.config(), Some(shared(&store))).await;
    assert!(matches!(refused, Err(LogError::BadRecord(_))), "{refused:?}");
}

#[tokio::test]
async fn an_event_under_a_reused_number_is_not_dropped() {
    let (folder, store) = (Folder::new(), MemoryStore::new());
    let log = AuditLog::open(folder.config(), Some(shared(&store))).await.unwrap();
    store.commit(Change::new().event("audit", event("undone"))).await.unwrap();
    log.newest().wait_for(|newest| *newest == 1).await.unwrap();
    log.close().await.unwrap();
    // The store lost power, and with it the last change and its event, so the next event gets the same number.
    let head = store.load("audit").await.unwrap().records.remove(0).value.unwrap();
    let again = with_head(head).await;
    again.commit(Change::new().event("audit", event("made"))).await.unwrap();
    let log = AuditLog::open(folder.config(), Some(shared(&again))).await.unwrap();
    log.flush().await.unwrap();
    let ids: Vec<_> = log.after(0, 9).await.unwrap().into_iter().map(|it| it.actor.id).collect();
    assert_eq!(ids, ["undone", "made"]);
}

#[tokio::test]
async fn a_call_whose_approval_is_decided_only_in_the_store_may_have_run() {
    let agent = Principal::local().agent("agent.one");
    for is_decided in [false, true] {
        let (folder, store) = (Folder::new(), MemoryStore::new());
        let log = AuditLog::open(folder.config(), Some(shared(&store))).await.unwrap();
        let _running = log.begin(start("rm", None, None)).await.unwrap();
        let requested = crate::Event::approval_requested(&agent, "a1", None);
        let requested = requested.server(Some(&"files".into())).tool(Some("rm"));
        log.record(requested.trace(Some("trace-1")).build()).await.unwrap();
        log.flush().await.unwrap();
        let copy = folder.copy();
        let head = store.load("audit").await.unwrap().records.remove(0).value.unwrap();
        let again = with_head(head).await;
        if is_decided {
            let decided = crate::Event::approval_decided(&agent, "a1", "approve").build();
            again.commit(Change::new().event("audit", decided)).await.unwrap();
        }
        let log = AuditLog::open(copy.config(), Some(shared(&again))).await.unwrap();
        log.flush().await.unwrap();
        let events = log.after(0, 9).await.unwrap();
        let is_blocked = events.iter().any(|it| it.event_type.as_str() == "TOOL_BLOCKED");
        assert_eq!(is_blocked, !is_decided, "{events:?}");
    }
}

#[tokio::test]
async fn dropping_the_last_handle_does_not_block_a_runtime_while_the_disk_is_slow() {
    let (folder, store) = (Folder::new(), broken(&Arc::default()));
    let log = AuditLog::open(folder.config(), Some(shared(&store))).await.unwrap();
    let running = log.begin(start("runs", Some(RiskLevel::Safe), None)).await.unwrap();
    store.set_failing(true);
    assert!(log.record(event("lost")).await.is_err());
    running.finish(AuditOutcome::Success);
    let began = Stopwatch::start();
    drop(log);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[test]
fn a_caller_that_arrives_as_the_writer_ends_gets_an_answer() {
    let queue = LogQueue::new(2, 0, 0);
    queue.end();
    let (ack, mut answer) = oneshot::channel();
    queue.push(Item::Flush { ack });
    assert!(matches!(answer.try_recv(), Err(oneshot::error::TryRecvError::Closed)));
}

#[test]
fn the_writer_of_a_closed_log_rests_while_calls_are_running() {
    let queue = LogQueue::new(2, 0, 0);
    assert!(queue.take(1), "a call is running");
    assert!(!queue.close(Duration::ZERO) && !queue.may_end());
    let began = tokio::time::Instant::now();
    assert!(queue.next(&mut VecDeque::new(), None, None), "the log is closing");
    assert!(began.elapsed() >= Duration::from_millis(5), "{:?}", began.elapsed());
    queue.release(Reservation::Permit);
    assert!(queue.may_end());
}
