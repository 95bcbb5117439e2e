//! Tests of stored segments: an opened index loads them, and finds the same tools as a new index.

use std::fmt::Write as _;

use mgp_types::store::Db;

use super::super::tool_source::ToolSource;
use super::database::run;
use super::{tool, *};
use crate::text::{DOCUMENT_VERSION, Indexer};

/// The number of servers in a test; together they have enough tools that the keyword segments are stored.
const SERVERS: usize = 12;
const TOOLS: usize = 100;

fn server(number: usize) -> ServerEntry {
    let tools = (0..TOOLS).map(|at| {
        let name = format!("read_{}_part{at}", ["mail", "file", "song"][at % 3]);
        tool(&name, &format!("Reads what {number} and {} wrote on day {}", at % 7, at % 11))
    });
    ServerEntry::new(format!("s{number:02}")).tools(tools)
}

fn other(number: usize) -> ServerEntry {
    let mut server = server(number);
    server.tools[7].tool.description = Some("Writes letters to pigeons".to_owned());
    server
}

async fn open(db: &Db) -> ToolIndex {
    ToolIndex::builder().without_embedder().open(db.clone()).await.unwrap()
}

fn found(index: &ToolIndex) -> String {
    let mut all = String::new();
    for text in ["read mail", "what wrote 3 on day 9", "song part42", "pigeon letter", "raed fiel"]
    {
        for hit in index.search(&Query::new(text).limit(20), &AllTools).unwrap().hits {
            writeln!(all, "{text}: {} {}", hit.tool.tool_id(), hit.score).unwrap();
        }
    }
    all
}

/// Returns an index whose servers are stored, with its database.
async fn stored() -> (Db, ToolIndex) {
    let db = Db::in_memory().await.unwrap();
    let index = open(&db).await;
    index.put_all((0..SERVERS).map(server)).unwrap();
    index.flush().await.unwrap();
    (db, index)
}

fn made_of(servers: impl IntoIterator<Item = ServerEntry>) -> ToolIndex {
    let index = by_words();
    index.put_all(servers).unwrap();
    index
}

/// Changes the numbers of the stored rows, to distinguish them from rows that are written later.
async fn mark(db: &Db) {
    run(db, "UPDATE toolindex_words SET number = number + 1000").await;
}

/// Returns the number of rows, and the number of rows that `mark` renumbered.
async fn rows(db: &Db) -> (u32, u32) {
    let sql = "SELECT count(*), count(*) FILTER (WHERE number > 1000) FROM toolindex_words";
    let both = |row: &mgp_types::store::sql::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    db.read(move |conn| Ok(conn.query_row(sql, [], both)?)).await.unwrap()
}

#[tokio::test]
async fn stored_segments_find_the_same_as_new_ones() {
    let (db, _index) = stored().await;
    let (kept, _) = rows(&db).await;
    assert!(kept > 0);
    mark(&db).await;
    let again = open(&db).await;
    assert_eq!(found(&again), found(&made_of((0..SERVERS).map(server))));
    // Adding a few tools must not cause the segments to be written again.
    again.put(server(SERVERS)).unwrap();
    again.flush().await.unwrap();
    let more = open(&db).await;
    assert_eq!(found(&more), found(&made_of((0..=SERVERS).map(server))));
    more.flush().await.unwrap();
    assert_eq!(rows(&db).await, (kept, kept), "none was made again");
}

#[tokio::test]
async fn changed_and_removed_tools_are_indexed_again() {
    for change in [Some(other(3)), None] {
        let (db, index) = stored().await;
        mark(&db).await;
        let mut left: Vec<_> = (0..SERVERS).map(server).collect();
        if let Some(changed) = change {
            left[3] = changed.clone();
            assert_eq!(index.put(changed).unwrap().changed, 1);
        } else {
            assert_eq!(index.remove("s05").unwrap(), TOOLS);
            drop(left.remove(5));
        }
        index.flush().await.unwrap();
        assert!(rows(&db).await.1 > 0, "a little is no reason to write all words");
        let again = open(&db).await;
        assert_eq!(found(&again), found(&made_of(left)));
        again.flush().await.unwrap();
        assert_eq!(found(&open(&db).await), found(&again));
    }
}

#[tokio::test]
async fn damaged_segments_and_those_of_another_version_are_indexed_again() {
    let new = found(&made_of((0..SERVERS).map(server)));
    for sql in [
        "UPDATE toolindex_words SET key = 'words 0'",
        "UPDATE toolindex_words SET part = 'text'",
        "UPDATE toolindex_words SET part = substr(part, 1, length(part) - 1)",
        "UPDATE toolindex_words SET part = part || x'00'",
        "UPDATE toolindex_words SET part = substr(part, 1, 5000) || x'2a2a2a' || substr(part, 5004)",
        "UPDATE toolindex_words SET part = substr(part, 2)",
        "DELETE FROM toolindex_words",
    ] {
        let (db, _index) = stored().await;
        mark(&db).await;
        run(&db, sql).await;
        let again = open(&db).await;
        assert_eq!(found(&again), new, "{sql}");
        again.flush().await.unwrap();
        let (kept, marked) = rows(&db).await;
        assert!(kept > 0 && marked == 0, "{sql}: {kept} {marked}");
    }
}

#[tokio::test]
async fn a_segment_that_is_stored_twice_counts_once() {
    let (db, index) = stored().await;
    let twice = "INSERT INTO toolindex_words (key, part) SELECT key, part FROM toolindex_words";
    run(&db, twice).await;
    assert_eq!(found(&open(&db).await), found(&index));
}

#[tokio::test]
async fn a_small_index_stores_no_segments() {
    let db = Db::in_memory().await.unwrap();
    let index = open(&db).await;
    index.put_all([files(), mail(), server(1)]).unwrap();
    index.flush().await.unwrap();
    assert_eq!(rows(&db).await, (0, 0));
}

/// Guards the format of stored segments. If this test fails, the indexed words of tools have changed: increase
/// `DOCUMENT_VERSION`, and update the hash in this test.
#[test]
fn the_words_of_a_version_never_change() {
    let index = by_words();
    let schema = r#"{"type":"object","properties":{"filePath":{"type":"string","format":"uri","description":"Where it's stored"},"mode":{"enum":["lines","bytes"]}}}"#;
    let mut listed = with_schema("read_CSVFiles2", schema);
    listed.title = Some("Reading spreadsheets".to_owned());
    let tools = [
        listed,
        tool("読取", "ファイルを読む 읽습니다"),
        tool("send-mail", "Sends a letter to somebody; Café"),
        tool("query", "Runs SQL against PostgreSQL databases"),
    ];
    let about = ServerEntry::new("srv-1").name("Office").description("Tables, letters");
    index.put(about.tools(tools)).unwrap();
    index.put(ServerEntry::new("own").categories(["Data/Files"]).tool(tool("x", "y"))).unwrap();
    let now = index.shared.snapshot();
    let bounds = index.shared.limits.bounds();
    let (mut indexer, mut hasher) = (Indexer::new(), blake3::Hasher::new());
    for (_, record) in now.catalog.records() {
        let texts = ToolSource::of(&record.entry, bounds).unwrap();
        hasher.update(format!("{:?}\n", texts.tool_text().document(&mut indexer)).as_bytes());
    }
    let hash = hasher.finalize().to_hex();
    assert_eq!((DOCUMENT_VERSION, &hash[..16]), (5, "52384f03ff5558cc"));
}
