//! Tests with several processes that share the file of a store, and with processes that are killed while they write.
//!
//! The test program starts itself as a child process, in a certain role.

#![cfg(unix)]

use std::io::{Read as _, Write as _, stdout};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mgp_testkit::{ChildTest, Stopwatch, child_role, report};
use mgp_types::Payload;
use mgp_types::mgp::AuditEvent;
use mgp_types::store::{Change, Db, Store, StoreError};
use tokio::time::Instant;

/// The number of times that the test kills a process that writes.
const KILLS: u32 = 200;

// === the child ===

/// The entry point of the child processes. In a normal run of the tests, it does nothing.
#[tokio::test]
async fn child() {
    let Some((role, file)) = child_role() else { return };
    let db = Db::open(file).await.unwrap();
    match &*role {
        "count" => count(&db).await,
        "write" => write_until_killed(&db).await,
        "follow" => follow(&db).await,
        "hammer" => hammer(&db).await,
        other => panic!("the role `{other}` is unknown"),
    }
    db.close().await;
}

/// Increments a stored number a hundred times. Other processes increment it at the same time, so a change that
/// conflicts is tried again.
async fn count(db: &Db) {
    for _ in 0..100 {
        loop {
            let records = db.load("count").await.unwrap().records;
            let (number, revision) = match records.first() {
                Some(found) => (found.value.as_ref().unwrap().get().unwrap(), Some(found.revision)),
                None => (0, None),
            };
            let next = Change::new().put("count", "it", Payload::of::<u64>(&(number + 1)).unwrap());
            match db.commit(next.expect_revision("count", "it", revision)).await {
                Ok(_) => break,
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// Commits changes until the process is killed, always eight at the same time. Each change writes two records and an
/// event. Reports each change that the store confirmed.
async fn write_until_killed(db: &Db) {
    let first = number(db, "left").await + 1;
    for round in (first..).step_by(8) {
        let commits: Vec<_> = (round..round + 8).map(|number| db.commit(step(number))).collect();
        for (commit, number) in commits.into_iter().zip(round..) {
            commit.await.unwrap();
            report("ack", number);
        }
    }
}

fn step(number: u64) -> Change {
    let value = Payload::of(&number).unwrap();
    let change = Change::new().put("s", "left", value.clone()).event("log", event(number));
    change.put("s", "right", value)
}

fn event(number: u64) -> AuditEvent {
    let text = format!(
        r#"{{"timestamp":"2026-01-02T03:04:05Z","event_type":"ACCESS_GRANTED",
            "actor":{{"type":"user","id":"{number}"}},"result":"SUCCESS"}}"#
    );
    serde_json::from_str(&text).unwrap()
}

/// Returns the number stored in a record, or 0 if the record does not exist.
async fn number(db: &Db, key: &str) -> u64 {
    let records = db.load("s").await.unwrap().records;
    let found = records.into_iter().find(|record| record.key == key);
    found.map_or(0, |record| record.value.unwrap().get().unwrap())
}

/// Writes a record again and again, so that a change is always queued while another one is being stored.
async fn hammer(db: &Db) {
    let write = || db.commit(Change::new().put("s", "hammer", Payload::null()));
    let (mut one, mut other) = (write(), write());
    report("ready", 0);
    loop {
        one.await.unwrap();
        one = std::mem::replace(&mut other, write());
    }
}

/// Waits for ten new revisions, commits a change after each, and reports the revision of that change.
async fn follow(db: &Db) {
    let mut news = db.revision();
    report("ready", *news.borrow());
    for _ in 0..10 {
        news.changed().await.unwrap();
        let mine = db.commit(Change::new().put("s", "mine", Payload::null())).await.unwrap();
        news.borrow_and_update();
        report("answered", mine);
    }
}

// === the parent ===

struct Folder(mgp_testkit::TempDir);

impl Folder {
    fn new() -> Self {
        Self(mgp_testkit::temp_dir())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("mgp.db")
    }
}

#[tokio::test]
async fn acknowledged_changes_survive_every_kill_and_no_change_is_partial() {
    let folder = Folder::new();
    let (mut openings, mut newest) = (Vec::new(), 0);
    for kill in 0..KILLS {
        let acknowledged = write_and_kill(&folder.file(), kill);
        let begun = Stopwatch::start();
        let db = Db::open(folder.file()).await.unwrap();
        openings.push(begun.elapsed());
        let kept = number(&db, "left").await;
        assert!(kept >= acknowledged.unwrap_or(newest), "{kept} {acknowledged:?}");
        assert_eq!(number(&db, "right").await, kept);
        assert_eq!(*db.revision().borrow(), kept, "each change is one revision");
        let events = db.pending_events("log", usize::MAX).await.unwrap();
        let numbered = events.iter().map(|event| (event.number, event.event.actor.id.clone()));
        assert!(numbered.eq((newest + 1..=kept).map(|number| (number, number.to_string()))));
        db.acknowledge("log", kept).await.unwrap();
        newest = kept;
        // Close the store in every second round only. In the other rounds it is just dropped, so the next child can
        // open the file while this process is still closing it.
        if kill % 2 == 0 {
            db.close().await;
        }
    }
    openings.sort();
    let worst = openings[openings.len() - 1];
    writeln!(stdout(), "{KILLS} kills, {newest} changes, worst opening {worst:?}").unwrap();
    // Ignore the slowest 5 % of the openings, because a busy machine may cause single outliers.
    let most = openings[openings.len() * 95 / 100];
    assert!(most < Duration::from_millis(100), "{most:?}, worst {worst:?}");
}

/// Kills a process while it writes; returns the newest change that the process had reported, if any.
fn write_and_kill(file: &Path, kill: u32) -> Option<u64> {
    let mut child = ChildTest::start("store_processes::child", "write", file);
    let mut acknowledged = None;
    if kill % 4 == 3 {
        // After so short a delay, the process is usually killed while it opens the file.
        std::thread::sleep(Duration::from_micros(fastrand::u64(..15_000)));
    } else {
        for _ in 0..fastrand::u32(1..60) {
            acknowledged = Some(child.wait_for("ack"));
        }
        std::thread::sleep(Duration::from_micros(fastrand::u64(..3000)));
    }
    let [newest] = child.kill_and_read(["ack"]);
    newest.or(acknowledged)
}

#[tokio::test]
async fn a_file_whose_creation_was_interrupted_is_created_again() {
    let folder = Folder::new();
    for kill in 0..40 {
        let file = folder.0.path().join(format!("{kill}.db"));
        let mut child = ChildTest::start("store_processes::child", "write", &file);
        std::thread::sleep(Duration::from_micros(fastrand::u64(..12_000)));
        child.kill();
        let db = Db::open(&file).await.unwrap();
        db.commit(step(1)).await.unwrap();
        db.close().await;
    }
}

#[tokio::test]
async fn processes_that_count_together_lose_nothing() {
    let folder = Folder::new();
    let mut others: Vec<_> = (0..2)
        .map(|_| ChildTest::start("store_processes::child", "count", &folder.file()))
        .collect();
    let db = Db::open(folder.file()).await.unwrap();
    count(&db).await;
    for other in &mut others {
        let mut out = String::new();
        other.lines.read_to_string(&mut out).unwrap();
        assert!(other.child.wait().unwrap().success(), "{out}");
    }
    let loaded = db.load("count").await.unwrap();
    assert_eq!(loaded.records[0].value, Some(Payload::of(&300).unwrap()));
    assert_eq!(loaded.revision, 300, "a change that conflicts takes no revision");
    db.close().await;
}

#[tokio::test]
async fn each_process_soon_sees_what_the_other_changed() {
    let folder = Folder::new();
    let db = Db::open(folder.file()).await.unwrap();
    let mut other = ChildTest::start("store_processes::child", "follow", &folder.file());
    assert_eq!(other.wait_for("ready"), 0);
    let mut news = db.revision();
    let mut worst = Duration::ZERO;
    for _ in 0..10 {
        let begun = Stopwatch::start();
        let mine = db.commit(Change::new().put("s", "yours", Payload::null())).await.unwrap();
        news.wait_for(|revision| *revision > mine).await.unwrap();
        // The measured time covers a change in each direction, so take half of it.
        worst = worst.max(begun.elapsed() / 2);
        assert_eq!(other.wait_for("answered"), mine + 1);
        let changed = db.changes("s", mine).await.unwrap().records;
        assert_eq!(changed[0].key, "mine");
    }
    writeln!(stdout(), "worst: {worst:?}").unwrap();
    assert!(worst < Duration::from_millis(250), "{worst:?}");
    db.close().await;
}

#[tokio::test]
async fn a_process_that_writes_without_pause_does_not_block_others() {
    let folder = Folder::new();
    let db = Db::open(folder.file()).await.unwrap();
    let mut other = ChildTest::start("store_processes::child", "hammer", &folder.file());
    other.wait_for("ready");
    let mut took = Vec::new();
    let before = *db.revision().borrow();
    for _ in 0..50 {
        std::thread::sleep(Duration::from_millis(3));
        let begun = Instant::now();
        db.commit(Change::new().put("s", "mine", Payload::null())).await.unwrap();
        took.push(begun.elapsed());
    }
    took.sort();
    let others = *db.revision().borrow() - before - 50;
    let (half, worst) = (took[25], took[49]);
    writeln!(stdout(), "half within {half:?}, worst {worst:?}, {others} meanwhile").unwrap();
    assert!(others > 0, "the other process writes as well");
    assert!(half < Duration::from_millis(50), "{took:?}");
    other.kill();
    db.close().await;
}
