//! Tests of damaged files.

use std::fs;

use mgp_testkit::temp_dir;
use mgp_types::store::Db;

use super::{FILE, put, read, tool, versions_of};
use crate::persist::{Change, IndexStore};

/// Runs SQL on a file with two servers, and returns what can still be read.
async fn after(sql: &'static str) -> (Vec<(String, Vec<u32>)>, usize) {
    let db = Db::in_memory().await.unwrap();
    let (store, _) = IndexStore::open(db.clone()).await.unwrap();
    store.push(put("a", 2, 1));
    store.push(put("b", 1, 2));
    store.flush().await.unwrap();
    db.write(move |conn| Ok(conn.execute_batch(sql)?)).await.unwrap();
    let opened = IndexStore::load(&db).await.unwrap();
    // Replacing a server still writes all of its tools.
    store.push(put("a", 2, 3));
    store.flush().await.unwrap();
    assert_eq!(versions_of(&read(&db).await)[0], ("a".to_owned(), vec![3, 3]), "{sql}");
    (versions_of(&opened.servers), opened.unreadable)
}

#[tokio::test]
async fn a_damaged_row_is_counted_and_left_out() {
    for sql in [
        "UPDATE toolindex_tool SET hash = 'short' WHERE name = 'tool1'",
        "UPDATE toolindex_tool SET hash = x'00' WHERE name = 'tool1'",
        "UPDATE toolindex_tool SET definition = x'ff' WHERE name = 'tool1'",
        "UPDATE toolindex_tool SET definition = CAST(x'ff' AS TEXT) WHERE name = 'tool1'",
        "UPDATE toolindex_tool SET place = 'here' WHERE name = 'tool1'",
        "UPDATE toolindex_tool SET categories = '[1' WHERE name = 'tool1'",
        "UPDATE toolindex_tool SET keywords = '{}' WHERE name = 'tool1'",
        "UPDATE toolindex_tool SET security = '[]' WHERE name = 'tool1'",
        "UPDATE toolindex_tool SET server = 'unknown' WHERE name = 'tool1'",
    ] {
        let expected = vec![("a".to_owned(), vec![1]), ("b".to_owned(), vec![2])];
        assert_eq!(after(sql).await, (expected, 1), "{sql}");
    }
    let (left, unreadable) =
        after("UPDATE toolindex_server SET categories = 7 WHERE id = 'a'").await;
    assert_eq!((left.len(), unreadable), (1, 3));
    // No tool is lost if the name in its row is damaged: this name only serves to find the row, and the definition
    // contains the name too.
    let (left, unreadable) =
        after("UPDATE toolindex_tool SET name = x'00ff' WHERE name = 'tool1'").await;
    assert_eq!((left[0].1.len(), unreadable), (2, 0));
}

#[tokio::test]
async fn a_damaged_count_is_not_used() {
    let db = Db::in_memory().await.unwrap();
    let (store, _) = IndexStore::open(db.clone()).await.unwrap();
    store.push(put("a", 2, 1));
    let counted = ["tool0", "tool1"].map(|name| tool("a", name, 1));
    for tool in &counted {
        tool.0.count(300);
    }
    store.push(vec![Change::Counts(counted.into())]);
    store.flush().await.unwrap();
    let tokens = async || {
        let all = read(&db).await;
        all[0].tools.iter().map(|tool| tool.tokens).collect::<Vec<_>>()
    };
    assert_eq!(tokens().await, [Some(300), Some(300)]);
    for damaged in ["-1", "0", "300", "tokens + 1", "tokens + (1 << 40)", "1e30", "'many'", "x'07'"]
    {
        let sql = format!("UPDATE toolindex_tool SET tokens = {damaged} WHERE name = 'tool1'");
        let before = "UPDATE toolindex_tool SET tokens =
            (SELECT tokens FROM toolindex_tool WHERE name = 'tool0') WHERE name = 'tool1'";
        db.write(move |conn| Ok(conn.execute_batch(&format!("{before}; {sql}"))?)).await.unwrap();
        assert_eq!(tokens().await, [Some(300), None], "{damaged}");
    }
}

#[tokio::test]
async fn a_damaged_vector_is_left_out() {
    for sql in [
        "UPDATE toolindex_vector SET row = 'text'",
        "UPDATE toolindex_vector SET hash = x'00'",
        "UPDATE toolindex_vector SET model = x'05'",
        "DELETE FROM toolindex_vector",
    ] {
        let db = Db::in_memory().await.unwrap();
        let (store, _) = IndexStore::open(db.clone()).await.unwrap();
        store.push(put("a", 2, 1));
        store.flush().await.unwrap();
        db.write(move |conn| Ok(conn.execute_batch(sql)?)).await.unwrap();
        let all = read(&db).await;
        assert!(all[0].tools.iter().all(|tool| tool.vector.is_none()), "{sql}");
        assert_eq!(all[0].tools.len(), 2);
    }
}

#[tokio::test]
async fn a_damaged_file_never_causes_a_panic() {
    let folder = temp_dir();
    let db = Db::open(folder.path().join(FILE)).await.unwrap();
    let (store, _) = IndexStore::open(db.clone()).await.unwrap();
    for server in ["a", "b", "c"] {
        store.push(put(server, 60, 1));
    }
    store.flush().await.unwrap();
    drop(store);
    db.close().await;
    let whole = fs::read(folder.path().join(FILE)).unwrap();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random >> 33).unwrap() % below
    };
    for _ in 0..60 {
        let mut damaged = whole.clone();
        let at = next(damaged.len());
        let until = (at + 1 + next(400)).min(damaged.len());
        damaged[at..until].iter_mut().for_each(|byte| *byte = u8::try_from(next(256)).unwrap());
        fs::write(folder.path().join(FILE), &damaged).unwrap();
        if let Ok(db) = Db::open(folder.path().join(FILE)).await {
            if let Ok((store, _)) = IndexStore::open(db.clone()).await {
                store.push(put("a", 3, 2));
                drop(store.flush().await);
            }
            db.close().await;
        }
        for ending in ["-wal", "-shm"] {
            drop(fs::remove_file(folder.path().join(format!("{FILE}{ending}"))));
        }
    }
}
