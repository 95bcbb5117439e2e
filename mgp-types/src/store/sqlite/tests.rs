//! Tests of a store in a file.

use std::fs;
use std::path::Path;

use mgp_testkit::until;
use tokio::time::{Instant, timeout};

use super::*;
use crate::store::tests::{event, one};
use crate::{Payload, PrivateFileError};

const SOON: Duration = Duration::from_secs(30);

pub(crate) struct Folder(mgp_testkit::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(mgp_testkit::temp_dir())
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.0.path().join("mgp.db")
    }

    fn beside(&self, ending: &str) -> PathBuf {
        self.0.path().join(format!("mgp.db{ending}"))
    }

    async fn open(&self) -> Db {
        Db::open(self.file()).await.unwrap()
    }

    async fn with_db() -> (Self, Db) {
        let folder = Self::new();
        let db = folder.open().await;
        (folder, db)
    }

    /// Opens a store that waits for locks no longer than `patience`, and whose queues have room for four jobs.
    async fn open_impatient(&self, patience: Duration) -> Db {
        let mut config = DbConfig::new(self.file());
        (config.lock_timeout, config.max_queued) = (patience, 4);
        config.open().await.unwrap()
    }
}

fn put(key: impl Into<String>) -> Change {
    Change::new().put("s", key, one())
}

async fn keys(db: &Db) -> Vec<String> {
    let records = db.load("s").await.unwrap().records;
    let mut keys: Vec<_> = records.into_iter().map(|record| record.key).collect();
    keys.sort();
    keys
}

/// Returns the error in the sources of a `StoreError::Failed`. A `DbError::Opening` is skipped, because it only adds
/// the path of the file to another error.
#[track_caller]
fn reason<E: std::error::Error + 'static>(error: &StoreError) -> &E {
    let StoreError::Failed(reason) = error else { panic!("{error}") };
    match reason.downcast_ref() {
        Some(DbError::Opening { source, .. }) => source.downcast_ref().unwrap(),
        _ => reason.downcast_ref().unwrap(),
    }
}

#[track_caller]
fn fault(error: &StoreError) -> &DbError {
    reason(error)
}

// === durability of records ===

#[tokio::test]
async fn commits_survive_a_reopen() {
    let (folder, db) = Folder::with_db().await;
    let revision = db.commit(put("a").event("log", event("u"))).await.unwrap();
    db.commit(put("b")).await.unwrap();
    db.commit(Change::new().remove("s", "b")).await.unwrap();
    db.close().await;

    let again = folder.open().await;
    assert_eq!(*again.revision().borrow(), 3);
    assert_eq!(keys(&again).await, ["a"]);
    let news = again.changes("s", revision).await.unwrap().records;
    assert_eq!(news, [crate::store::Record::new("b", None, 3)]);
    assert_eq!(again.pending_events("log", 9).await.unwrap()[0].event, event("u"));
}

#[tokio::test]
async fn the_last_handle_takes_the_threads_and_the_log_with_it() {
    let (folder, db) = Folder::with_db().await;
    let mut news = db.revision();
    let other = db.clone();
    // The future of this commit is dropped, but the change is applied nevertheless.
    drop(db.commit(put("a")));
    drop(db);
    other.commit(put("b")).await.unwrap();
    assert!(folder.beside("-wal").exists());
    drop(other);
    timeout(SOON, async { while news.changed().await.is_ok() {} }).await.unwrap();
    assert!(!folder.beside("-wal").exists());
    assert!(!folder.beside("-shm").exists());
    assert_eq!(keys(&folder.open().await).await, ["a", "b"]);
}

#[tokio::test]
async fn a_closed_store_returns_closed_to_every_handle() {
    let (_folder, db) = Folder::with_db().await;
    let other = db.clone();
    let waiting = other.commit(put("a"));
    db.close().await;
    waiting.await.unwrap();
    assert!(matches!(other.commit(put("b")).await, Err(StoreError::Closed)));
    assert!(matches!(other.load("s").await, Err(StoreError::Closed)));
    assert!(matches!(other.read(|_| Ok(())).await, Err(StoreError::Closed)));
}

#[tokio::test]
async fn a_dropped_open_leaves_nothing_running() {
    let folder = Folder::new();
    folder.open().await.close().await;
    let mut opening = Box::pin(Db::open(folder.file()));
    assert!(waits(&mut opening));
    drop(opening);
    until("the files beside the store are gone", async || {
        !folder.beside("-wal").exists() && !folder.beside("-shm").exists()
    })
    .await;
    assert!(folder.open().await.load("s").await.is_ok());
}

fn waits<F: Future + Unpin>(future: &mut F) -> bool {
    let mut task = std::task::Context::from_waker(std::task::Waker::noop());
    std::pin::Pin::new(future).poll(&mut task).is_pending()
}

// === concurrency ===

#[tokio::test]
async fn changes_of_one_batch_fail_independently() {
    let (_folder, db) = Folder::with_db().await;
    let all: Vec<_> = (0..200)
        .map(|number| {
            let change = put(number.to_string());
            db.commit(if number % 2 == 0 {
                change
            } else {
                change.expect_revision("s", "none", Some(1))
            })
        })
        .collect();
    for (number, answer) in all.into_iter().enumerate() {
        match answer.await {
            Ok(revision) => assert_eq!(revision, number as u64 / 2 + 1),
            Err(StoreError::Conflict { .. }) => assert_eq!(number % 2, 1),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(keys(&db).await.len(), 100);
}

#[tokio::test]
async fn a_lock_held_for_too_long_times_out() {
    let folder = Folder::new();
    let db = folder.open_impatient(Duration::from_secs(4)).await;
    let holder = Connection::open(folder.file()).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let begun = Instant::now();
    let refused = tokio::spawn(db.commit(put("a")));
    // The runtime has only one thread, so these sleeps would take too long if a method blocked it.
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(!refused.is_finished(), "{:?}", begun.elapsed());
    assert!(db.load("s").await.unwrap().records.is_empty(), "reading needs no lock");
    let refused = refused.await.unwrap().unwrap_err();
    assert!(refused.to_string().contains("look for one that hangs"), "{refused}");
    holder.execute_batch("COMMIT").unwrap();
    db.commit(put("b")).await.unwrap();
    assert_eq!(keys(&db).await, ["b"]);
}

#[tokio::test]
async fn too_many_are_refused_at_once() {
    let folder = Folder::new();
    let db = folder.open_impatient(Duration::from_millis(50)).await;
    let (release, held) = std::sync::mpsc::channel::<()>();
    let (begun, runs) = std::sync::mpsc::channel();
    let holding = db.write(move |_| {
        begun.send(()).unwrap();
        Ok(held.recv().is_err())
    });
    runs.recv_timeout(SOON).unwrap();
    let waiting = || db.0.queues.lock().as_ref().unwrap().write.try_send(Box::new(Nothing)).is_ok();
    assert!((0..100_000).any(|_| !waiting()), "the queue has no bound");
    let refused = db.commit(put("a")).await.unwrap_err();
    assert!(matches!(refused, StoreError::Busy(_)), "{refused}");
    drop(release);
    assert!(holding.await.unwrap());
    until("the store takes changes again", async || db.commit(put("a")).await.is_ok()).await;
}

struct Nothing;

impl job::Job for Nothing {
    fn run(&mut self, _: &Connection) -> Result<(), StoreError> {
        Ok(())
    }

    fn answer(self: Box<Self>, _: Result<(), StoreError>) {}
}

#[tokio::test]
async fn long_queries_delay_neither_changes_nor_notifications() {
    let folder = Folder::new();
    let (db, other) = (folder.open().await, folder.open().await);
    let (release, held) = std::sync::mpsc::channel::<()>();
    let query = db.read(move |_| Ok(held.recv().is_err()));
    let mut news = db.revision();
    other.commit(put("a")).await.unwrap();
    timeout(SOON, news.changed()).await.unwrap().unwrap();
    assert_eq!(keys(&db).await, ["a"]);
    drop(release);
    assert!(query.await.unwrap());
}

// === callers' SQL ===

const STEPS: &[&str] = &["CREATE TABLE words (word TEXT)", "INSERT INTO words VALUES ('a')"];

fn words(conn: &Connection) -> Result<u32, StoreError> {
    Ok(conn.query_row("SELECT count(*) FROM words", [], |row| row.get(0))?)
}

fn add_word(conn: &Connection) -> Result<(), StoreError> {
    conn.execute("INSERT INTO words VALUES ('b')", [])?;
    Ok(())
}

#[tokio::test]
async fn each_step_is_done_once() {
    let (folder, db) = Folder::with_db().await;
    db.migrate("words", &STEPS[..1]).await.unwrap();
    assert_eq!(db.read(words).await.unwrap(), 0);
    for _ in 0..2 {
        db.migrate("words", STEPS).await.unwrap();
        assert_eq!(db.read(words).await.unwrap(), 1);
    }
    db.migrate("other", &["CREATE TABLE other (a)"]).await.unwrap();
    db.close().await;
    let again = folder.open().await;
    again.migrate("words", STEPS).await.unwrap();
    assert_eq!(again.read(words).await.unwrap(), 1);
    let newer = again.migrate("words", &STEPS[..1]).await.unwrap_err();
    assert!(matches!(&newer, StoreError::Unreadable(why) if why.contains("update")), "{newer}");
}

#[tokio::test]
async fn the_database_before_a_migration_is_kept() {
    let (folder, db) = Folder::with_db().await;
    db.migrate("words", &STEPS[..1]).await.unwrap();
    // Simulates an interrupted migration, which has left an incomplete copy of the file.
    fs::write(folder.beside(".words-1"), "half").unwrap();
    fs::write(folder.beside(".words-1-wal"), "half").unwrap();
    db.migrate("words", STEPS).await.unwrap();
    assert!(!folder.beside(".words-1-wal").exists());
    crate::private_file::check(&folder.beside(".words-1")).unwrap();
    let older = Db::open(folder.beside(".words-1")).await.unwrap();
    assert_eq!((older.read(words).await.unwrap(), db.read(words).await.unwrap()), (0, 1));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_migration_keeps_the_locks_of_the_file() {
    let (folder, db) = Folder::with_db().await;
    let inode = std::os::unix::fs::MetadataExt::ino(&fs::metadata(folder.file()).unwrap());
    let locks = || {
        let all = fs::read_to_string("/proc/locks").unwrap();
        all.split_whitespace().filter(|word| word.ends_with(&format!(":{inode}"))).count()
    };
    db.migrate("words", &STEPS[..1]).await.unwrap();
    assert_eq!(locks(), 1);
    db.migrate("words", STEPS).await.unwrap();
    assert_eq!(locks(), 1, "another program would remove the write-ahead log");
}

#[tokio::test]
async fn a_step_that_fails_takes_all_of_them_back() {
    let (_folder, db) = Folder::with_db().await;
    let bad = &["CREATE TABLE words (word TEXT)", "INSERT INTO word VALUES ('a')"];
    let failed = db.migrate("words", bad).await.unwrap_err();
    assert!(failed.to_string().contains("no such table: word"), "{failed}");
    db.migrate("words", STEPS).await.unwrap();
    assert_eq!(db.read(words).await.unwrap(), 1);
}

#[tokio::test]
async fn a_write_that_fails_or_panics_is_undone_alone() {
    let (_folder, db) = Folder::with_db().await;
    db.migrate("words", STEPS).await.unwrap();
    let before = db.commit(put("a"));
    let fails = db.write(|tx| add_word(tx).and(Err::<(), _>(StoreError::Closed)));
    let panics = db.write(|tx| -> Result<(), StoreError> {
        add_word(tx)?;
        panic!("a panic that the test wants")
    });
    let after = db.write(add_word);
    before.await.unwrap();
    assert!(matches!(fails.await, Err(StoreError::Closed)));
    let panicked = panics.await.unwrap_err();
    assert!(matches!(fault(&panicked), DbError::Panicked), "{panicked}");
    after.await.unwrap();
    assert_eq!((db.read(words).await.unwrap(), keys(&db).await.len()), (2, 1));
    assert!(db.read(add_word).await.is_err(), "who reads does not write");
}

#[tokio::test]
async fn a_write_that_ends_the_transaction_fails_and_the_store_continues() {
    let (_folder, db) = Folder::with_db().await;
    let ended = db.write(|tx| Ok(tx.execute_batch("COMMIT")?)).await.unwrap_err();
    assert!(matches!(fault(&ended), DbError::Ended), "{ended}");
    db.commit(put("a")).await.unwrap();
}

// === syncing ===

#[tokio::test]
async fn a_new_file_is_brought_to_the_disk_while_it_is_used() {
    let (folder, db) = Folder::with_db().await;
    db.commit(put("a")).await.unwrap();
    // Before the sync, the data is only in the write-ahead log, and the file itself has one page.
    let is_there = async || {
        while fs::metadata(folder.file()).unwrap().len() <= 4096 {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, is_there()).await.unwrap();
    db.commit(put("b")).await.unwrap();
    assert_eq!(keys(&db).await, ["a", "b"]);
}

#[tokio::test]
async fn commits_to_a_new_file_have_the_configured_durability() {
    for (durability, level) in [(Durability::Normal, 1), (Durability::Full, 2)] {
        let folder = Folder::new();
        for age in ["new", "known"] {
            let mut config = DbConfig::new(folder.file());
            config.durability = durability;
            let db = config.open().await.unwrap();
            let ask = |conn: &Connection| {
                Ok(conn.query_row("PRAGMA synchronous", [], |row| row.get::<_, u32>(0))?)
            };
            assert_eq!(db.write(ask).await.unwrap(), level, "{durability:?}, {age}");
            db.commit(put(age)).await.unwrap();
            db.close().await;
        }
    }
}

// === failures ===

#[tokio::test]
async fn a_full_disk_changes_nothing_and_the_store_continues() {
    let (_folder, db) = Folder::with_db().await;
    db.commit(put("a")).await.unwrap();
    let limit = |pages: u32| {
        move |conn: &Connection| {
            let sql = format!("PRAGMA max_page_count = {pages}");
            Ok(conn.query_row(&sql, [], |row| row.get::<_, u32>(0))?)
        }
    };
    db.write(limit(1)).await.unwrap();
    let large = Payload::from_trusted(format!("\"{}\"", "x".repeat(100_000)));
    let too_much = db.commit(Change::new().put("s", "large", large.clone()).put("s", "b", one()));
    let small = db.commit(put("c"));
    let full = too_much.await.unwrap_err();
    assert!(matches!(fault(&full), DbError::Full(_)), "{full}");
    assert!(full.to_string().contains("free some"), "{full}");
    // SQLite may have rolled back the whole transaction for lack of space. Then the other job in it must have failed
    // with the same error.
    if let Err(error) = small.await {
        assert!(matches!(fault(&error), DbError::Full(_)), "{error}");
        assert_eq!(keys(&db).await, ["a"]);
        db.commit(put("c")).await.unwrap();
    }
    assert_eq!(keys(&db).await, ["a", "c"]);
    db.write(limit(10_000)).await.unwrap();
    db.commit(Change::new().put("s", "large", large)).await.unwrap();
}

#[test]
fn a_disk_without_room_for_the_index_of_the_log_is_full() {
    use rusqlite::ffi;
    let error = |code| {
        let error = ffi::Error::new(code);
        StoreError::from(rusqlite::Error::SqliteFailure(error, None))
    };
    let full = error(ffi::SQLITE_IOERR_SHMSIZE);
    assert!(matches!(fault(&full), DbError::Full(_)), "{full}");
    let other = error(ffi::SQLITE_IOERR_WRITE);
    assert!(matches!(fault(&other), DbError::Disk(_)), "{other}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_was_removed_or_replaced_takes_no_changes() {
    let folder = Folder::new();
    let (db, away) = (folder.open().await, folder.beside("-away"));
    fs::rename(folder.file(), &away).unwrap();
    let lost = db.commit(put("lost")).await.unwrap_err().to_string();
    assert!(lost.contains("removed or replaced") && lost.contains("remove `…-wal`"), "{lost}");
    fs::write(folder.file(), "").unwrap();
    assert!(matches!(db.commit(put("lost")).await, Err(StoreError::Lost)));
    fs::rename(&away, folder.file()).unwrap();
    db.commit(put("kept")).await.unwrap();
    assert_eq!(keys(&db).await, ["kept"]);
}

#[tokio::test]
async fn a_file_that_became_read_only_can_still_be_read() {
    let (folder, db) = Folder::with_db().await;
    db.commit(put("a")).await.unwrap();
    db.write(|tx| Ok(tx.pragma_update(None, "query_only", true)?)).await.unwrap();
    let refused = db.commit(put("b")).await.unwrap_err();
    assert!(matches!(fault(&refused), DbError::ReadOnly(_)), "{refused}");
    assert_eq!(keys(&db).await, ["a"]);
    folder.open().await.commit(put("b")).await.unwrap();
}

#[track_caller]
fn refused(path: &Path, opened: Result<Db, StoreError>, remedy: &str) -> StoreError {
    let error = opened.unwrap_err();
    let message = error.to_string();
    assert!(message.contains(remedy), "{message}");
    assert!(message.contains(&*path.to_string_lossy()), "{message}");
    error
}

#[tokio::test]
async fn files_that_are_not_stores_are_refused_with_a_remedy() {
    let folder = Folder::new();
    let missing = folder.0.path().join("missing").join("mgp.db");
    let error = refused(&missing, Db::open(&missing).await, "cannot be created");
    assert!(matches!(reason(&error), PrivateFileError::Io { .. }));
    refused(folder.0.path(), Db::open(folder.0.path()).await, "is not a plain file");
    assert!(Db::open("").await.is_err());

    let path = folder.file();
    crate::private_file::create(&path).unwrap();
    fs::write(&path, "no database, but longer than nothing".repeat(100)).unwrap();
    let error = refused(&path, folder_open(&folder).await, "is not an SQLite database");
    assert!(matches!(error, StoreError::Unreadable(_)));

    fs::write(&path, "").unwrap();
    let foreign = Connection::open(&path).unwrap();
    foreign.execute_batch("CREATE TABLE theirs (a)").unwrap();
    drop(foreign);
    refused(&path, folder_open(&folder).await, "belongs to another program");
}

async fn folder_open(folder: &Folder) -> Result<Db, StoreError> {
    Db::open(folder.file()).await
}

#[tokio::test]
async fn the_file_of_a_newer_version_is_left_alone() {
    let (folder, db) = Folder::with_db().await;
    db.write(|tx| Ok(tx.execute_batch("UPDATE store_migration SET version = 9")?)).await.unwrap();
    db.close().await;
    let error = refused(&folder.file(), folder_open(&folder).await, "update this program");
    assert!(matches!(error, StoreError::Unreadable(_)));
}

#[tokio::test]
async fn damage_is_an_error_and_never_a_panic() {
    let (folder, db) = Folder::with_db().await;
    for number in 0..300 {
        db.commit(put(number.to_string()).event("log", event("u"))).await.unwrap();
    }
    db.close().await;
    let whole = fs::read(folder.file()).unwrap();
    let mut random = fastrand::Rng::with_seed(5);
    let mut failures = 0;
    for _ in 0..100 {
        let mut damaged = whole.clone();
        let at = random.usize(..damaged.len());
        let until = (at + random.usize(1..600)).min(damaged.len());
        random.fill(&mut damaged[at..until]);
        fs::write(folder.file(), &damaged).unwrap();
        let outcome: Result<_, StoreError> = async {
            let db = folder_open(&folder).await?;
            let used = use_all(&db).await;
            db.close().await;
            used
        }
        .await;
        if let Err(error) = outcome {
            failures += 1;
            assert!(!matches!(error, StoreError::Closed), "a thread died: {error}");
        }
        for ending in ["-wal", "-shm"] {
            let _ = fs::remove_file(folder.beside(ending));
        }
    }
    assert!(failures > 10, "{failures}");
}

async fn use_all(db: &Db) -> Result<(), StoreError> {
    db.load("s").await?;
    db.changes("s", 10).await?;
    db.pending_events("log", 400).await?;
    db.commit(put("a").event("log", event("u"))).await?;
    db.acknowledge("log", 10).await
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_may_use_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let (folder, db) = Folder::with_db().await;
    db.commit(put("a")).await.unwrap();
    for ending in ["", "-wal", "-shm"] {
        let path = folder.beside(ending);
        let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "{ending}");
        for open in [0o644, 0o640, 0o604, 0o620, 0o601] {
            mode(open);
            let error = refused(&path, folder_open(&folder).await, "chmod 600");
            assert!(
                matches!(reason(&error), PrivateFileError::Exposed { mode, .. } if *mode == open)
            );
        }
        mode(0o600);
    }
    assert!(folder_open(&folder).await.is_ok());
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_may_only_be_read_is_refused_and_left_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    folder.open().await.close().await;
    fs::set_permissions(folder.file(), fs::Permissions::from_mode(0o400)).unwrap();
    if fs::OpenOptions::new().write(true).open(folder.file()).is_ok() {
        // The user root can write a read-only file, so the test is skipped.
        return;
    }
    let error = refused(&folder.file(), folder_open(&folder).await, "is read-only");
    assert!(matches!(fault(&error), DbError::ReadOnly(_)), "{error}");
    assert!(!folder.beside("-shm").exists());
}

// === several handles of one file ===

#[tokio::test]
async fn many_may_make_the_same_file_at_once() {
    for _ in 0..5 {
        let folder = Folder::new();
        let opening: Vec<_> = (0..6).map(|_| tokio::spawn(Db::open(folder.file()))).collect();
        for (number, opened) in opening.into_iter().enumerate() {
            let db = opened.await.unwrap().unwrap();
            assert_eq!(db.commit(put(number.to_string())).await.unwrap(), number as u64 + 1);
            if number == 5 {
                assert_eq!(keys(&db).await.len(), 6);
            }
        }
    }
}

#[tokio::test]
async fn an_unreadable_event_does_not_block_later_ones() {
    let db = Db::in_memory().await.unwrap();
    let event = event("ada");
    let both = Change::new().event("audit", event.clone()).event("audit", event.clone());
    db.commit(both).await.unwrap();
    db.write(|tx| Ok(tx.execute("UPDATE store_event SET event = '{' WHERE number = 1", [])?))
        .await
        .unwrap();
    let pending = db.pending_events("audit", 9).await.unwrap();
    let found = serde_json::to_string(&pending[0].event).unwrap();
    let expected = r#"{"timestamp":"1970-01-01T00:00:00.000Z","event_type":"dev.cloto.event_unreadable","actor":{"type":"kernel","id":"kernel"},"result":"FAILURE","details":{"number":1}}"#;
    assert_eq!(found, expected);
    assert_eq!(pending[1].event, event);
    assert_eq!(db.pending_events("audit", 9).await.unwrap(), pending, "the same each time");
}
