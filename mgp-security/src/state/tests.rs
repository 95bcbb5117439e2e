//! Tests of a state whose store changes, fails or was never read.

use mgp_testkit::{FaultyStore, RecordedLog, RefusingAudit, until};
use mgp_types::service::MemoryAudit;
use mgp_types::store::MemoryStore;

use super::*;

struct Sum(u64);

impl Snapshot for Sum {
    type Entry = u64;
    const SPACE: &'static str = "numbers";

    fn of(entries: &BTreeMap<String, Arc<u64>>) -> Self {
        Self(entries.values().map(|number| **number).sum())
    }
}

fn state(store: &MemoryStore) -> State<Sum> {
    State::new(Arc::new(store.clone()), Arc::new(MemoryAudit::new()))
}

#[tokio::test]
async fn a_store_that_ended_decides_nothing() {
    let (news, known) = watch::channel(0);
    let store = Arc::new(FaultyStore::default().with_revision(known));
    let state = State::<Sum>::new(store, Arc::new(MemoryAudit::new()));
    state.open().await.unwrap();
    tokio::task::yield_now().await;
    assert!(state.now().is_ok());
    drop(news);
    until("the state ends", async || state.now().is_err()).await;
}

#[tokio::test]
async fn an_unreadable_store_decides_nothing() {
    let store = MemoryStore::new();
    let state = state(&store);
    state.open().await.unwrap();
    let odd = Change::new().put(Sum::SPACE, "a", Payload::from_trusted(r#""x""#));
    store.commit(odd).await.unwrap();
    for _ in 0..2 {
        assert!(state.write(Vec::new(), Vec::new()).await.is_err());
        assert!(state.now().is_err());
    }
    store.commit(Change::new().remove(Sum::SPACE, "a")).await.unwrap();
    state.write(Vec::new(), Vec::new()).await.unwrap();
    assert_eq!(state.now().unwrap().0, 0);
}

/// Creates a state over a store that answers reads late, and can be set to fail them.
fn late(store: &MemoryStore) -> (State<Sum>, FaultyStore) {
    let late = FaultyStore::new(store.clone()).on_read(|store, _, read| {
        let store = store.clone();
        Box::pin(async move {
            tokio::task::yield_now().await;
            if store.is_failing() { Err(StoreError::Busy("test")) } else { read.await }
        })
    });
    (State::new(Arc::new(late.clone()), Arc::new(MemoryAudit::new())), late)
}

fn put(key: &str, number: u64) -> Change {
    Change::new().put(Sum::SPACE, key, Payload::of(&number).unwrap())
}

fn event() -> AuditEvent {
    crate::audit::Event::policy_changed(mgp_types::mgp::Actor::kernel(), None).build()
}

#[tokio::test]
async fn state_that_was_never_opened_decides_nothing() {
    let store = MemoryStore::new();
    store.commit(put("denied", 7)).await.unwrap();
    let (state, _) = late(&store);
    assert!(matches!(state.now().map(drop), Err(StoreError::NotLoaded)));
    state.open().await.unwrap();
    assert_eq!(state.now().unwrap().0, 7);
}

#[test]
fn a_follower_that_died_with_its_runtime_is_replaced() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = MemoryStore::new();
    let (state, _) = late(&store);
    runtime().block_on(state.open()).unwrap();
    assert!(state.now().is_ok(), "nothing has changed since");
    runtime().block_on(async {
        // Another process writes an entry while no task follows the store.
        store.commit(put("a", 1)).await.unwrap();
        assert!(state.now().is_err(), "an old answer may be a wrong one");
        assert!(state.now().is_err(), "asking twice makes it no newer");
        until("the first change is read", async || state.now().is_ok_and(|sum| sum.0 == 1)).await;
        store.commit(put("a", 2)).await.unwrap();
        until("the second change is read", async || state.now().is_ok_and(|sum| sum.0 == 2)).await;
    });
}

#[tokio::test]
async fn a_failed_read_is_retried_automatically() {
    let (state, store) = late(&MemoryStore::new());
    state.open().await.unwrap();
    until("the store is followed", async || state.0.followed.load(Ordering::Relaxed)).await;
    store.set_failing(true);
    assert!(state.latest(|_| true).await.is_err());
    assert!(state.now().is_err());
    store.set_failing(false);
    until("the store is read again", async || state.now().is_ok()).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_for_long_is_logged_when_that_begins_and_ends() {
    let log = RecordedLog::of(tracing::Level::WARN);
    let _guard = tracing::subscriber::set_default(log.clone());
    let (state, store) = late(&MemoryStore::new());
    state.open().await.unwrap();
    until("the store is followed", async || state.0.followed.load(Ordering::Relaxed)).await;
    store.set_failing(true);
    assert!(state.latest(|_| true).await.is_err());
    assert!(state.now().is_err());
    tokio::time::sleep(10 * RETRY_DELAY).await;
    let lines = || log.lines_of("mgp_security::state");
    assert_eq!(lines().len(), 1, "{:?}", lines());
    store.set_failing(false);
    until("the end is logged", async || lines().len() == 2).await;
    assert!(lines()[0].starts_with("ERROR") && lines()[1].contains("recovered"), "{:?}", lines());
}

#[tokio::test]
async fn a_change_that_cannot_be_read_back_is_not_reported_as_refused() {
    let store = MemoryStore::new();
    let (state, late) = late(&store);
    state.open().await.unwrap();
    late.set_failing(true);
    let done = state.write(vec![("a".to_owned(), Some(1))], Vec::new()).await;
    assert!(matches!(done, Err(ChangeError::Unread(_))), "{done:?}");
    assert_eq!(store.load(Sum::SPACE).await.unwrap().records.len(), 1);
}

#[tokio::test]
async fn a_change_that_cannot_be_recorded_is_undone() {
    let store = MemoryStore::new();
    store
        .commit(put("replaced", 1).put(Sum::SPACE, "removed", Payload::from_trusted("2")))
        .await
        .unwrap();
    let state =
        State::<Sum>::new(Arc::new(store.clone()), Arc::new(RefusingAudit(AuditError::Full)));
    let writes = [("replaced", Some(10)), ("removed", None), ("made", Some(100))];
    let writes = writes.map(|(key, entry)| (key.to_owned(), entry)).into();
    let done = state.write(writes, vec![event()]).await;
    assert!(matches!(done, Err(ChangeError::Unaudited(_))), "{done:?}");
    state.open().await.unwrap();
    assert_eq!(state.now().unwrap().0, 3);
}

#[tokio::test]
async fn a_refused_change_is_not_recorded_and_a_made_one_is_recorded_once() {
    let (store, audit) = (MemoryStore::new(), MemoryAudit::new());
    let state = State::<Sum>::new(Arc::new(store.clone()), Arc::new(audit.clone()));
    let revision = store.commit(put("a", 1)).await.unwrap();
    let after = |revision| put("a", 2).expect_revision(Sum::SPACE, "a", Some(revision));
    assert!(state.commit(after(revision + 1), vec![event()]).await.is_err());
    assert!(audit.events().is_empty());
    state.commit(after(revision), vec![event()]).await.unwrap();
    assert_eq!(audit.events().len(), 1);
}

#[tokio::test]
async fn a_caller_that_gives_up_does_not_stop_a_change_before_its_record() {
    let (store, audit) = (MemoryStore::new(), MemoryAudit::new());
    let state = State::<Sum>::new(Arc::new(store.clone()), Arc::new(audit.clone()));
    let writes = vec![("a".to_owned(), Some(1))];
    let mut change = Box::pin(state.write(writes, vec![event()]));
    assert!(change.as_mut().poll(&mut Task::from_waker(Waker::noop())).is_pending());
    drop(change);
    until("the change is recorded", async || audit.events().len() == 1).await;
    assert_eq!(store.load(Sum::SPACE).await.unwrap().records.len(), 1);
}

#[tokio::test]
async fn an_event_is_recorded_in_a_log_of_another_store() {
    let folder = mgp_testkit::temp_dir();
    let (of_log, of_book) = (MemoryStore::new(), MemoryStore::new());
    let config = crate::LogConfig::new(folder.path());
    let log = crate::AuditLog::open(config, Some(Arc::new(of_log))).await.unwrap();
    let state = State::<Sum>::new(Arc::new(of_book.clone()), Arc::new(log.clone()));
    state.write(vec![("a".to_owned(), Some(1))], vec![event()]).await.unwrap();
    assert_eq!(log.query(crate::AuditQuery::new()).await.unwrap().events.len(), 1);
    assert!(
        of_book.pending_events("audit", 9).await.unwrap().is_empty(),
        "no log takes it from there"
    );
}

#[test]
fn an_entry_that_expires_while_the_machine_is_suspended_is_announced_after_the_sleep() {
    let begin = SystemTime::now();
    let after = |minutes: u64| begin + Duration::from_mins(minutes);
    for (next, now, expected) in [
        (Some(after(5)), after(1), false),
        (Some(after(5)), after(600), true),
        (None, after(600), false),
    ] {
        assert_eq!(is_due(next, MAX_SLEEP, now), expected, "{next:?} {now:?}");
    }
    assert!(is_due(Some(after(1)), MAX_SLEEP / 2, after(1)));
}
