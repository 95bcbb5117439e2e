//! Tests of the behaviour common to all stores.

use std::sync::Arc;

use serde_json::json;

use super::*;

pub(super) fn one() -> Payload {
    Payload::from_trusted("1")
}

pub(super) fn event(id: &str) -> AuditEvent {
    serde_json::from_value(json!({
        "timestamp": "2026-01-02T03:04:05Z",
        "event_type": "ACCESS_GRANTED",
        "actor": { "type": "user", "id": id },
        "result": "SUCCESS",
    }))
    .unwrap()
}

/// Runs a check on a new store of each kind.
async fn on_each(check: impl AsyncFn(Arc<dyn Store>)) {
    check(Arc::new(MemoryStore::new())).await;
    #[cfg(feature = "sqlite")]
    {
        check(Arc::new(Db::in_memory().await.unwrap())).await;
        let folder = super::sqlite::Folder::new();
        let db = Db::open(folder.file()).await.unwrap();
        check(Arc::new(db.clone())).await;
        db.close().await;
    }
}

#[tokio::test]
async fn a_change_that_expects_otherwise_changes_nothing() {
    on_each(async |store| {
        let first = store.commit(Change::new().put("s", "a", one())).await.unwrap();
        let change = Change::new().put("s", "b", one()).event("log", event("u"));
        let refused = store.commit(change.expect_revision("s", "a", None)).await.unwrap_err();
        let StoreError::Conflict { space: "s", key } = refused else { panic!("{refused}") };
        assert_eq!(key, "a");
        assert_eq!(store.load("s").await.unwrap().records.len(), 1);
        assert!(store.pending_events("log", 9).await.unwrap().is_empty());
        let right = Change::new().remove("s", "a").expect_revision("s", "a", Some(first));
        assert_eq!(store.commit(right).await.unwrap(), 2);
        assert_eq!(*store.revision().borrow(), 2);
        // A record that was removed counts as a record that was never written, so a change can expect its absence.
        store
            .commit(Change::new().put("s", "a", one()).expect_revision("s", "a", None))
            .await
            .unwrap();
    })
    .await;
}

#[tokio::test]
async fn every_expectation_counts_before_anything_is_written() {
    on_each(async |store| {
        let change = Change::new().put("s", "a", one());
        let both = change.expect_revision("s", "a", None).expect_revision("s", "b", Some(1));
        assert!(
            matches!(store.commit(both).await, Err(StoreError::Conflict { key, .. }) if key == "b")
        );
        let own = Change::new().put("s", "a", one()).expect_revision("s", "a", None);
        assert_eq!(store.commit(own).await.unwrap(), 1);
    })
    .await;
}

#[tokio::test]
async fn spaces_are_separate() {
    on_each(async |store| {
        store.commit(Change::new().put("s", "a", one())).await.unwrap();
        assert!(store.load("other").await.unwrap().records.is_empty());
        let changes = store.changes("other", 0).await.unwrap();
        assert_eq!(changes, LoadedRecords::new(1, Vec::new()));
    })
    .await;
}

#[tokio::test]
async fn the_last_write_of_a_change_counts() {
    on_each(async |store| {
        let change = Change::new().put("s", "a", one()).put("s", "a", Payload::null());
        store.commit(change.put("s", "b", one()).remove("s", "b")).await.unwrap();
        let loaded = store.load("s").await.unwrap();
        assert_eq!(loaded.records, [Record::new("a", Some(Payload::null()), 1)]);
    })
    .await;
}

#[tokio::test]
async fn a_record_written_again_is_not_reported_as_removed() {
    on_each(async |store| {
        store.commit(Change::new().put("s", "a", one())).await.unwrap();
        store.commit(Change::new().remove("s", "a")).await.unwrap();
        store.commit(Change::new().put("s", "a", one())).await.unwrap();
        let changes = store.changes("s", 1).await.unwrap();
        assert_eq!(changes.records, [Record::new("a", Some(one()), 3)]);
    })
    .await;
}

#[tokio::test]
async fn a_record_removed_twice_is_still_reported_as_removed() {
    on_each(async |store| {
        store.commit(Change::new().put("s", "a", one())).await.unwrap();
        store.commit(Change::new().remove("s", "a")).await.unwrap();
        store.commit(Change::new().remove("s", "a")).await.unwrap();
        let changes = store.changes("s", 1).await.unwrap();
        assert_eq!(changes, LoadedRecords::new(3, vec![Record::new("a", None, 2)]));
    })
    .await;
}

#[tokio::test]
async fn removals_are_remembered_for_a_while() {
    on_each(async |store| {
        let every = (0..=MAX_REMOVALS).map(|number| number.to_string());
        let put = every.clone().fold(Change::new(), |change, key| change.put("s", key, one()));
        store.commit(put).await.unwrap();
        store.commit(Change::new().remove("s", "0")).await.unwrap();
        assert_eq!(store.changes("s", 1).await.unwrap().records.len(), 1);
        let gone = every.skip(1).fold(Change::new(), |change, key| change.remove("s", key));
        store.commit(gone).await.unwrap();
        assert!(matches!(store.changes("s", 1).await, Err(StoreError::TooOld)));
        assert_eq!(store.changes("s", 2).await.unwrap().records.len(), MAX_REMOVALS);
        assert!(store.load("s").await.unwrap().records.is_empty());
    })
    .await;
}

#[tokio::test]
async fn events_wait_for_their_log_under_numbers_that_only_grow() {
    on_each(async |store| {
        let change = Change::new().event("a", event("1")).event("b", event("2"));
        store.commit(change.event("a", event("3"))).await.unwrap();
        let waiting = store.pending_events("a", 9).await.unwrap();
        assert_eq!(waiting, [PendingEvent::new(1, event("1")), PendingEvent::new(3, event("3"))]);
        assert_eq!(store.pending_events("a", 1).await.unwrap(), waiting[..1]);

        store.acknowledge("a", 3).await.unwrap();
        assert!(store.pending_events("a", 9).await.unwrap().is_empty());
        assert_eq!(store.pending_events("b", 9).await.unwrap().len(), 1);
        store.acknowledge("b", u64::MAX).await.unwrap();
        store.commit(Change::new().event("a", event("4"))).await.unwrap();
        assert_eq!(store.pending_events("a", usize::MAX).await.unwrap()[0].number, 4);
    })
    .await;
}

#[tokio::test]
async fn a_change_whose_event_cannot_be_stored_is_refused() {
    on_each(async |store| {
        let full = (0..MAX_PENDING).fold(Change::new(), |change, _| change.event("a", event("u")));
        store.commit(full).await.unwrap();
        let more = Change::new().put("s", "a", one()).event("b", event("u"));
        assert!(matches!(store.commit(more.clone()).await, Err(StoreError::Busy(_))));
        assert!(store.load("s").await.unwrap().records.is_empty());
        store.acknowledge("a", 1).await.unwrap();
        store.commit(more).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn subscribers_are_notified_before_a_commit_returns() {
    on_each(async |store| {
        let mut news = store.revision();
        assert!(!news.has_changed().unwrap());
        let revision = store.commit(Change::new().put("s", "a", one())).await.unwrap();
        assert!(news.has_changed().unwrap());
        assert_eq!(*news.borrow_and_update(), revision);
        store
            .commit(Change::new().put("s", "a", one()).expect_revision("s", "a", None))
            .await
            .unwrap_err();
        assert!(!news.has_changed().unwrap());
    })
    .await;
}

#[test]
fn errors_for_callers_do_not_name_the_file() {
    let error = RpcError::from(StoreError::Unreadable("`/home/u/mgp.db` is damaged".to_owned()));
    assert_eq!(error.to_string(), "the store cannot be used; the operator must check it (2000)");
    let source = std::error::Error::source(&error).unwrap();
    assert!(source.to_string().contains("/home/u/mgp.db"), "the operator sees the details");
}

#[cfg(feature = "sqlite")]
mod random {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Commit(Vec<Edit>),
        Settle(&'static str, u64),
        Reopen,
    }

    #[derive(Clone, Debug)]
    enum Edit {
        Put(&'static str, &'static str, u8),
        Remove(&'static str, &'static str),
        /// Expects a revision of the record: the newest revision of the store minus this number. `None` expects that
        /// the record does not exist.
        Expect(&'static str, &'static str, Option<u64>),
        Tell(&'static str, u8),
    }

    fn edit() -> impl Strategy<Value = Edit> {
        let name = || (select(&["s", "t"]), select(&["", "a", "b", "ä\0'"]));
        prop_oneof![
            4 => (name(), any::<u8>()).prop_map(|((space, key), value)| Edit::Put(space, key, value)),
            3 => name().prop_map(|(space, key)| Edit::Remove(space, key)),
            1 => (name(), prop::option::of(0..4_u64))
                .prop_map(|((space, key), back)| Edit::Expect(space, key, back)),
            1 => (select(&["l", "m"]), any::<u8>()).prop_map(|(log, id)| Edit::Tell(log, id)),
        ]
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            12 => prop::collection::vec(edit(), 0..5).prop_map(Step::Commit),
            2 => (select(&["l", "m"]), 0..30_u64).prop_map(|(log, number)| Step::Settle(log, number)),
            1 => Just(Step::Reopen),
        ]
    }

    fn change(edits: &[Edit], newest: u64) -> Change {
        edits.iter().fold(Change::new(), |change, edit| match edit {
            Edit::Put(space, key, value) => change.put(space, *key, Payload::of(value).unwrap()),
            Edit::Remove(space, key) => change.remove(space, *key),
            Edit::Expect(space, key, back) => {
                change.expect_revision(space, *key, back.map(|back| newest.saturating_sub(back)))
            }
            Edit::Tell(log, id) => change.event(*log, event(&id.to_string())),
        })
    }

    async fn seen(store: &dyn Store) -> String {
        let newest = *store.revision().borrow();
        let mut seen = Vec::new();
        for space in ["s", "t", "none"] {
            seen.push(sorted(store.load(space).await));
            for since in newest.saturating_sub(5)..=newest + 1 {
                seen.push(sorted(store.changes(space, since).await));
            }
        }
        for log in ["l", "m"] {
            seen.push(format!("{:?}", store.pending_events(log, 7).await));
        }
        format!("{newest} {seen:#?}")
    }

    fn sorted(loaded: Result<LoadedRecords, StoreError>) -> String {
        let sorted = loaded.map(|mut loaded| {
            loaded.records.sort_by(|one, other| one.key.cmp(&other.key));
            loaded
        });
        format!("{sorted:?}")
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        #[test]
        fn the_same_steps_give_the_same_in_memory_and_in_a_file(
            steps in prop::collection::vec(step(), 1..30)
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let folder = super::super::sqlite::Folder::new();
                let memory = MemoryStore::new();
                let mut db = Db::open(folder.file()).await.unwrap();
                for step in steps {
                    match step {
                        Step::Commit(edits) => {
                            let change = change(&edits, *memory.revision().borrow());
                            let (one, other) =
                                (memory.commit(change.clone()).await, db.commit(change).await);
                            assert_eq!(format!("{one:?}"), format!("{other:?}"));
                        }
                        Step::Settle(log, number) => {
                            memory.acknowledge(log, number).await.unwrap();
                            db.acknowledge(log, number).await.unwrap();
                        }
                        Step::Reopen => {
                            db.close().await;
                            db = Db::open(folder.file()).await.unwrap();
                        }
                    }
                    assert_eq!(seen(&memory).await, seen(&db).await);
                }
                db.close().await;
            });
        }
    }
}
