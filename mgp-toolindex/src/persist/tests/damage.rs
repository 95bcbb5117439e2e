//! Files that are not as they were written.

use std::fs;

use mgp_types::store::Db;

use super::{Folder, brief, put, read, tool};
use crate::persist::{Change, Keeper, tables};

/// Does something to the rows of a file with two servers, and says what can still be read.
async fn after(sql: &'static str) -> (Vec<(String, Vec<u32>)>, usize) {
    let db = Db::in_memory().await.unwrap();
    let (keeper, _) = Keeper::open(db.clone()).await.unwrap();
    keeper.give(put("a", 2, 1));
    keeper.give(put("b", 1, 2));
    keeper.flush().await.unwrap();
    db.write(move |conn| Ok(conn.execute_batch(sql)?)).await.unwrap();
    let opened = db.read(tables::load).await.unwrap();
    // Whatever is in there can be replaced.
    keeper.give(put("a", 2, 3));
    keeper.flush().await.unwrap();
    assert_eq!(brief(&read(&db).await)[0], ("a".to_owned(), vec![3, 3]), "{sql}");
    (brief(&opened.servers), opened.unreadable)
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_counted_and_left_out() {
    for sql in [
        "UPDATE toolindex_tool SET hash = 'short' WHERE name = 'tool1'",
        "UPDATE toolindex_tool SET hash = x'00' WHERE name = 'tool1'",
        "UPDATE toolindex_tool SET definition = x'ff' WHERE name = 'tool1'",
        "UPDATE toolindex_tool SET definition = CAST(x'ff' AS TEXT) WHERE name = 'tool1'",
        "UPDATE toolindex_tool SET place = 'here' WHERE name = 'tool1'",
        "UPDATE toolindex_tool SET categories = '[1' WHERE name = 'tool1'",
        "UPDATE toolindex_tool SET keywords = '{}' WHERE name = 'tool1'",
        "UPDATE toolindex_tool SET security = '[]' WHERE name = 'tool1'",
        "UPDATE toolindex_tool SET server = 'nobody' WHERE name = 'tool1'",
    ] {
        let expected = vec![("a".to_owned(), vec![1]), ("b".to_owned(), vec![2])];
        assert_eq!(after(sql).await, (expected, 1), "{sql}");
    }
    let (left, unreadable) =
        after("UPDATE toolindex_server SET categories = 7 WHERE id = 'a'").await;
    assert_eq!((left.len(), unreadable), (1, 3));
    // The name is in the definition; that of the row only finds it.
    let (left, unreadable) =
        after("UPDATE toolindex_tool SET name = x'00ff' WHERE name = 'tool1'").await;
    assert_eq!((left[0].1.len(), unreadable), (2, 0));
}

#[tokio::test]
async fn a_damaged_count_is_no_exact_one() {
    let db = Db::in_memory().await.unwrap();
    let (keeper, _) = Keeper::open(db.clone()).await.unwrap();
    keeper.give(put("a", 2, 1));
    let counted = ["tool0", "tool1"].map(|name| tool("a", name, 1));
    for tool in &counted {
        tool.0.count(300);
    }
    keeper.give(vec![Change::Counted(counted.into())]);
    keeper.flush().await.unwrap();
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
async fn a_vector_that_cannot_be_read_is_none() {
    for sql in [
        "UPDATE toolindex_vector SET row = 'text'",
        "UPDATE toolindex_vector SET hash = x'00'",
        "UPDATE toolindex_vector SET model = x'05'",
        "DELETE FROM toolindex_vector",
    ] {
        let db = Db::in_memory().await.unwrap();
        let (keeper, _) = Keeper::open(db.clone()).await.unwrap();
        keeper.give(put("a", 2, 1));
        keeper.flush().await.unwrap();
        db.write(move |conn| Ok(conn.execute_batch(sql)?)).await.unwrap();
        let all = read(&db).await;
        assert!(all[0].tools.iter().all(|tool| tool.vector.is_none()), "{sql}");
        assert_eq!(all[0].tools.len(), 2);
    }
}

#[tokio::test]
async fn no_byte_of_a_damaged_file_makes_it_panic() {
    let folder = Folder::new();
    let db = Db::open(folder.file()).await.unwrap();
    let (keeper, _) = Keeper::open(db.clone()).await.unwrap();
    for server in ["a", "b", "c"] {
        keeper.give(put(server, 60, 1));
    }
    keeper.flush().await.unwrap();
    drop(keeper);
    db.close().await;
    let whole = fs::read(folder.file()).unwrap();
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
        fs::write(folder.file(), &damaged).unwrap();
        if let Ok(db) = Db::open(folder.file()).await {
            if let Ok((keeper, _)) = Keeper::open(db.clone()).await {
                keeper.give(put("a", 3, 2));
                drop(keeper.flush().await);
            }
            db.close().await;
        }
        for ending in ["-wal", "-shm"] {
            drop(fs::remove_file(folder.0.join(format!("index.db{ending}"))));
        }
    }
}
