//! A history in a database is the same when it is opened again, and what was erased is not in it.
//!
//! Applies to: inbound.

use std::path::PathBuf;
use std::sync::Arc;

use mgp_types::service::Principal;
use mgp_types::store::Db;

use super::{Letters, best, me, taught, views};
use crate::learn::{Erase, History, HistoryConfig, HistoryStats, Keep};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("mgp-history-{name}-{}", std::process::id()));
        let _old = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    async fn db(&self) -> Db {
        Db::open(self.0.join("mgp.db")).await.unwrap()
    }

    fn bytes(&self) -> Vec<u8> {
        let files = std::fs::read_dir(&self.0).unwrap();
        files.flat_map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect()
    }

    fn has(&self, text: &str) -> bool {
        self.bytes().windows(text.len()).any(|bytes| bytes == text.as_bytes())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn a_history_is_the_same_when_it_is_opened_again() {
    let folder = Folder::new("again");
    let db = folder.db().await;
    let history = History::open(db.clone(), HistoryConfig::new()).await.unwrap();
    history.embed_with(Some(Arc::new(Letters("a"))));
    taught(&history, &me());
    history.record(&me(), "weather rain 0", "s.tool0");
    history.settle();
    history.flush().await.unwrap();
    let (before, stats) = (views(&history, &me(), "send a mail"), history.stats());
    drop(history);
    db.close().await;

    let db = folder.db().await;
    let history = History::open(db.clone(), HistoryConfig::new()).await.unwrap();
    history.embed_with(Some(Arc::new(Letters("a"))));
    history.settle();
    assert_eq!(history.stats(), stats);
    for (before, after) in before.iter().zip(views(&history, &me(), "send a mail")) {
        assert_eq!(before.tool, after.tool);
        assert!((before.share - after.share).abs() < 0.01, "{before:?} {after:?}");
    }
    history.record(&me(), "WEATHER  rain 0", "s.tool0");
    assert_eq!(history.stats().queries, stats.queries, "it is known again");
    drop(history);
    db.close().await;

    let db = folder.db().await;
    let history = History::open(db.clone(), HistoryConfig::new()).await.unwrap();
    history.embed_with(Some(Arc::new(Letters("b"))));
    history.settle();
    assert_eq!(history.stats().vectors, 48, "vectors of another model are made anew");
    db.close().await;
}

#[tokio::test]
async fn what_was_erased_is_not_in_the_file() {
    let folder = Folder::new("erased");
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
async fn what_is_erased_while_it_is_written_does_not_come_back() {
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
async fn a_stricter_configuration_takes_texts_and_vectors_from_the_file() {
    let folder = Folder::new("stricter");
    for (keep, has_text) in [(Keep::Text, true), (Keep::Vector, false), (Keep::Words, false)] {
        let db = folder.db().await;
        let history = History::open(db.clone(), HistoryConfig::new().keep(keep)).await.unwrap();
        history.embed_with(Some(Arc::new(Letters("a"))));
        if keep == Keep::Text {
            taught(&history, &me());
            history.record(&me(), "where is the purple elephant", "s.find");
        }
        history.settle();
        let vectors = if keep == Keep::Words { 0 } else { 49 };
        assert_eq!((history.stats().queries, history.stats().vectors), (49, vectors), "{keep:?}");
        assert_eq!(best(&history, &me(), "send a mail").unwrap().0, "s.tool1");
        history.flush().await.unwrap();
        drop(history);
        db.close().await;
        assert_eq!(folder.has("purple elephant"), has_text, "{keep:?}");
    }
}

#[tokio::test]
async fn it_writes_by_itself() {
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
    again.embed_with(Some(Arc::new(Letters("a"))));
    assert!(again.stats().queries >= 40, "{:?}", again.stats());
    assert_eq!(best(&again, &me(), "play music").unwrap().0, "s.tool3");
}
