//! Tests of a history that is stored in a database.

use std::sync::Arc;

use mgp_testkit::{TempDir, temp_dir};
use mgp_types::service::Principal;
use mgp_types::store::Db;

use super::{Letters, best, lifts, me, taught};
use crate::learn::{
    Erase, History, HistoryConfig, HistoryScope, HistoryStats, Retention, UseOutcome,
};

/// A temporary folder with the database of a history.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(temp_dir())
    }

    async fn db(&self) -> Db {
        Db::open(self.0.path().join("mgp.db")).await.unwrap()
    }

    fn bytes(&self) -> Vec<u8> {
        let files = std::fs::read_dir(self.0.path()).unwrap();
        files.flat_map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect()
    }

    fn has(&self, text: &str) -> bool {
        self.bytes().windows(text.len()).any(|bytes| bytes == text.as_bytes())
    }
}

#[tokio::test]
async fn a_reopened_history_is_the_same() {
    let folder = Folder::new();
    let db = folder.db().await;
    let history = History::open(db.clone(), HistoryConfig::new()).await.unwrap();
    history.set_embedder(Some(Arc::new(Letters("a"))));
    taught(&history, &me());
    history.record(&me(), "weather rain 0", "s.tool0");
    history.settle();
    history.flush().await.unwrap();
    let (before, stats) = (lifts(&history, &me(), "send a mail"), history.stats());
    drop(history);
    db.close().await;

    let db = folder.db().await;
    let history = History::open(db.clone(), HistoryConfig::new()).await.unwrap();
    history.set_embedder(Some(Arc::new(Letters("a"))));
    history.settle();
    let changed = history.0.table.read().changed.as_ref().map(std::collections::HashSet::len);
    assert_eq!(changed, Some(0), "what was read is not written again");
    assert_eq!(history.stats(), stats);
    for (before, after) in before.iter().zip(lifts(&history, &me(), "send a mail")) {
        assert_eq!(before.tool, after.tool);
        assert!((before.share - after.share).abs() < 0.01, "{before:?} {after:?}");
    }
    history.record(&me(), "WEATHER  rain 0", "s.tool0");
    assert_eq!(history.stats().queries, stats.queries, "the query is recognised");
    drop(history);
    db.close().await;

    let db = folder.db().await;
    let history = History::open(db.clone(), HistoryConfig::new()).await.unwrap();
    history.set_embedder(Some(Arc::new(Letters("b"))));
    history.settle();
    assert_eq!(history.stats().vectors, 48, "vectors of another model are made again");
    db.close().await;
}

#[tokio::test]
async fn erased_data_is_not_in_the_file() {
    let folder = Folder::new();
    let db = folder.db().await;
    let history = History::open(db.clone(), HistoryConfig::new()).await.unwrap();
    let you = Principal::new("t", "you");
    history.record(&me(), "where is the purple elephant", "s.find");
    history.record(&you, "where is the yellow tortoise", "s.find");
    history.record(&you, "secretive question", "s.gone");
    history.flush().await.unwrap();
    assert_eq!(history.erase(Erase::Principal(&me())).await.unwrap(), 1);
    assert_eq!(history.erase(Erase::Tool("s.gone")).await.unwrap(), 1);
    history.flush().await.unwrap();
    drop(history);
    db.close().await;
    assert!(folder.has("yellow tortoise") && !folder.has("purple elephant"));
    assert!(!folder.has("secretive question") && !folder.has("s.gone"));

    let db = folder.db().await;
    let history = History::open(db.clone(), HistoryConfig::new()).await.unwrap();
    assert_eq!(history.stats().queries, 1);
    assert_eq!(history.erase(Erase::All).await.unwrap(), 1);
    drop(history);
    let history = History::open(db.clone(), HistoryConfig::new()).await.unwrap();
    assert_eq!(history.stats(), HistoryStats::default());
    db.close().await;
}

#[tokio::test]
async fn unmet_searches_are_stored_for_each_agent_until_they_are_erased() {
    let folder = Folder::new();
    let db = folder.db().await;
    let config = || HistoryConfig::new().scope(HistoryScope::Agent);
    let (ann, bob) = (me().agent("ann"), me().agent("bob"));
    let history = History::open(db.clone(), config()).await.unwrap();
    history.record_search(&ann, 1, "send a purple fax", [""; 0]);
    history.record_search(&ann, 1, "read the mail", ["s.read"]);
    history.record_search(&bob, 1, "send a yellow fax", ["s.mail", "s.call"]);
    history.record_call(&ann, 1, "s.read", UseOutcome::Answered);
    history.flush().await.unwrap();
    drop(history);
    let history = History::open(db.clone(), config()).await.unwrap();
    let unmet = history.unmet(&ann);
    assert_eq!((unmet.len(), unmet[0].query.as_str()), (1, "send a purple fax"));
    assert_eq!(history.unmet(&bob)[0].not_called, 1);
    history.erase(Erase::Principal(&ann)).await.unwrap();
    assert!(history.unmet(&ann).is_empty());
    drop(history);
    let history = History::open(db.clone(), config()).await.unwrap();
    assert_eq!((history.unmet(&ann).len(), history.unmet(&bob).len()), (0, 1));
    assert_eq!(history.stats().queries, 0, "those of the agent are erased too");
    drop(history);
    // After the history is opened with options that do not permit texts, no stored text may remain.
    let config = config().retention(Retention::Words);
    let history = History::open(db.clone(), config).await.unwrap();
    history.record_search(&bob, 1, "send a red fax", [""; 0]);
    assert!(history.unmet(&bob).is_empty());
    drop(history);
    db.close().await;
    assert!(!folder.has("purple fax") && !folder.has("red fax"));
}

#[tokio::test]
async fn a_check_of_a_database_finds_a_lost_table_of_the_history_and_creates_none() {
    let db = Db::in_memory().await.unwrap();
    let drop_table = || db.write(|tx| Ok(tx.execute_batch("DROP TABLE toolindex_history_call")?));
    History::check(&db).await.unwrap();
    assert!(drop_table().await.is_err());
    drop(History::open(db.clone(), HistoryConfig::new()).await.unwrap());
    History::check(&db).await.unwrap();
    drop_table().await.unwrap();
    assert!(History::check(&db).await.is_err());
}

#[tokio::test]
async fn the_agents_of_a_subject_are_not_several_subjects_and_are_erased_with_it() {
    let db = Db::in_memory().await.unwrap();
    let open = |scope| History::open(db.clone(), HistoryConfig::new().scope(scope));
    let (claude, cursor) = (me().agent("claude"), me().agent("cursor"));
    let (you, other) = (Principal::new("t", "you"), Principal::new("t", "me2").agent("claude"));
    let history = open(HistoryScope::Agent).await.unwrap();
    for agent in [&claude, &cursor] {
        taught(&history, agent);
        history.record_search(agent, 1, "send a fax", [""; 0]);
    }
    history.record(&other, "send a mail", "s.mail");
    history.flush().await.unwrap();
    drop(history);

    for scope in [HistoryScope::Subject, HistoryScope::Tenant] {
        let history = open(scope).await.unwrap();
        assert_eq!(lifts(&history, &you, "send a mail"), [], "{scope:?}");
        assert_eq!(history.stats(), HistoryStats::default(), "{scope:?}");
        let called = history.called_tools("s", |_| false).await.unwrap();
        assert_eq!(called, ["s.mail", "s.tool0", "s.tool1", "s.tool2", "s.tool3"], "{scope:?}");
    }
    let history = open(HistoryScope::Agent).await.unwrap();
    assert_eq!((history.stats().queries, history.unmet(&claude).len()), (97, 1), "kept");
    drop(history);

    let history = open(HistoryScope::Tenant).await.unwrap();
    history.erase(Erase::Principal(&me())).await.unwrap();
    drop(history);
    let history = open(HistoryScope::Agent).await.unwrap();
    assert_eq!((history.stats().queries, history.unmet(&claude).len()), (1, 0), "of the other");
}

#[tokio::test]
async fn an_erasure_without_an_embedder_keeps_the_vectors_of_the_other_tools() {
    let db = Db::in_memory().await.unwrap();
    let open = || History::open(db.clone(), HistoryConfig::new().retention(Retention::Vector));
    let history = open().await.unwrap();
    history.set_embedder(Some(Arc::new(Letters("a"))));
    history.record(&me(), "send a mail", "s.a");
    history.record(&me(), "send a mail", "t.b");
    history.flush().await.unwrap();
    drop(history);

    let history = open().await.unwrap();
    history.erase(Erase::Tool("s.a")).await.unwrap();
    history.flush().await.unwrap();
    drop(history);

    let history = open().await.unwrap();
    history.set_embedder(Some(Arc::new(Letters("a"))));
    let stats = history.stats();
    assert_eq!((stats.queries, stats.tools, stats.vectors), (1, 1, 1));
}

#[tokio::test]
async fn data_that_is_erased_during_a_write_does_not_reappear() {
    let db = Db::in_memory().await.unwrap();
    let history = History::open(db.clone(), HistoryConfig::new()).await.unwrap();
    for round in 0..20 {
        taught(&history, &me());
        tokio::task::yield_now().await;
        history.erase(Erase::All).await.unwrap();
        history.flush().await.unwrap();
        let again = History::open(db.clone(), HistoryConfig::new()).await.unwrap();
        assert_eq!(again.stats(), HistoryStats::default(), "round {round}");
    }
}

#[tokio::test]
async fn stricter_options_remove_texts_and_vectors_from_the_file() {
    let folder = Folder::new();
    for (retention, has_text) in
        [(Retention::Text, true), (Retention::Vector, false), (Retention::Words, false)]
    {
        let db = folder.db().await;
        let history =
            History::open(db.clone(), HistoryConfig::new().retention(retention)).await.unwrap();
        history.set_embedder(Some(Arc::new(Letters("a"))));
        if retention == Retention::Text {
            taught(&history, &me());
            history.record(&me(), "where is the purple elephant", "s.find");
        }
        history.settle();
        let vectors = if retention == Retention::Words { 0 } else { 49 };
        assert_eq!(
            (history.stats().queries, history.stats().vectors),
            (49, vectors),
            "{retention:?}"
        );
        assert_eq!(best(&history, &me(), "send a mail").unwrap().0, "s.tool1");
        history.flush().await.unwrap();
        drop(history);
        db.close().await;
        assert_eq!(folder.has("purple elephant"), has_text, "{retention:?}");
    }
}

#[tokio::test]
async fn changes_are_written_without_a_flush() {
    let db = Db::in_memory().await.unwrap();
    let history = History::open(db.clone(), HistoryConfig::new()).await.unwrap();
    history.record(&me(), "send a mail", "s.mail");
    for _ in 0..200 {
        let again = History::open(db.clone(), HistoryConfig::new()).await.unwrap();
        if again.stats().queries == 1 {
            return;
        }
    }
    panic!("nothing was written");
}

#[tokio::test]
async fn damaged_rows_are_left_out() {
    let db = Db::in_memory().await.unwrap();
    let history = History::open(db.clone(), HistoryConfig::new()).await.unwrap();
    taught(&history, &me());
    history.flush().await.unwrap();
    let damage = "UPDATE toolindex_history SET words = x'0102', vector = x'07', model = 'a', last = -5
                    WHERE subject = 'me' AND text LIKE 'mail%';
                  INSERT INTO toolindex_history VALUES (x'01', 't', 'me', NULL, x'', NULL, NULL, 9999999999);
                  INSERT INTO toolindex_history_call VALUES (x'01', 's.x', -7);";
    db.write(move |tx| Ok(tx.execute_batch(damage)?)).await.unwrap();
    let again = History::open(db.clone(), HistoryConfig::new()).await.unwrap();
    again.set_embedder(Some(Arc::new(Letters("a"))));
    assert!(again.stats().queries >= 40, "{:?}", again.stats());
    assert_eq!(best(&again, &me(), "play music").unwrap().0, "s.tool3");
}

#[tokio::test]
async fn the_callers_of_stored_and_of_unmet_searches_are_read() {
    let db = Db::in_memory().await.unwrap();
    assert!(History::callers(&db).await.unwrap().is_empty());
    let by_agent = HistoryConfig::new().scope(HistoryScope::Agent);
    let history = History::open(db.clone(), by_agent).await.unwrap();
    let (ada, ben) = (Principal::new("acme", "ann").agent("ada"), Principal::new("beta", "ben"));
    history.record(&ada, "where is the purple elephant", "s.find");
    history.record_search(&ben, 1, "how tall is the green giraffe", ["s.find"; 0]);
    history.flush().await.unwrap();
    assert_eq!(History::callers(&db).await.unwrap(), [ada, ben]);
}
