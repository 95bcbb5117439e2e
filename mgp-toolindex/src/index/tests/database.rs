//! Tests of indexes that are stored in a database.

use std::fmt::Write as _;
use std::sync::Arc;

use mgp_types::store::Db;

use super::embedding::Fake;
use super::{tool, *};
use crate::embed::{Cost, Embedder};

async fn open(db: &Db, fake: Option<&Arc<Fake>>) -> ToolIndex {
    let builder = match fake {
        Some(fake) => ToolIndex::builder().embedder(Arc::clone(fake) as Arc<dyn Embedder>),
        None => ToolIndex::builder().without_embedder(),
    };
    builder.open(db.clone()).await.unwrap()
}

/// Returns a database in which an index has stored the server `files`.
async fn with_files(fake: Option<&Arc<Fake>>) -> Db {
    let db = Db::in_memory().await.unwrap();
    let index = open(&db, fake).await;
    index.put(files()).unwrap();
    index.flush().await.unwrap();
    db
}

pub(super) async fn run(db: &Db, sql: &'static str) {
    db.write(move |conn| Ok(conn.execute_batch(sql)?)).await.unwrap();
}

/// Returns all visible data of an index as a text, except the states of its servers.
fn seen(index: &ToolIndex) -> String {
    let mut all = String::new();
    for entry in index.entries() {
        all.push_str(&serde_json::to_string(&entry).unwrap());
        let listed = index.get(&entry.server_id, &entry.name).unwrap();
        writeln!(all, "{:?} {} {:?}", listed.risk(), listed.tokens(), listed.hash()).unwrap();
    }
    for text in ["read a file", "letter", "folder", "sends files", "odd", "读取文件"] {
        let found = index.search(&Query::new(text).limit(9), &AllTools).unwrap();
        for hit in found.hits {
            writeln!(all, "{text}: {} {}", hit.tool.tool_id(), hit.score).unwrap();
        }
    }
    write!(all, "{:?}", index.caller_overview(&AllTools)).unwrap();
    all
}

fn odd() -> ServerEntry {
    let security = ToolSecurity::new(RiskLevel::Safe);
    let claims = r#"{"name":"claims","inputSchema":{},"security":{"risk_level":"moderate","permissions_required":[]}}"#;
    let entry = ToolEntry::from(tool("od\u{e9}d \"name\"", "读取文件内容"))
        .security(security)
        .categories(["Strange.Things", "b/c"])
        .keywords(["Key Word", "x"]);
    ServerEntry::new("odd")
        .name("Odd \u{1f600}")
        .categories(["SharedIndex/One"])
        .tool(entry)
        .tool(serde_json::from_str::<Tool>(claims).unwrap())
}

#[tokio::test]
async fn a_reopened_index_is_the_same() {
    let db = Db::in_memory().await.unwrap();
    for cost in [Cost::Small, Cost::Large] {
        let fake = Fake::new("fake-1", cost);
        let index = open(&db, Some(&fake)).await;
        index.put(mail()).unwrap();
        index.put_all([files(), odd(), ServerEntry::new("empty")]).unwrap();
        index.put(ServerEntry::new("gone").tool(tool("gone", "Goes"))).unwrap();
        index.remove("gone").unwrap();
        let counted = index.get("files", "read_file").unwrap();
        counted.0.count(17);
        index.shared.store_counts(vec![counted]);
        let changed = tool("send_mail", "Sends a letter by pigeon");
        index.put(ServerEntry::new("mail").name("Mail").tool(changed)).unwrap();
        index.embedded().await.unwrap();
        index.put(files().tool(tool("more", "More"))).unwrap();
        index.put(files()).unwrap();
        index.embedded().await.unwrap();
        index.flush().await.unwrap();
        fake.take();

        let again = open(&db, Some(&fake)).await;
        again.embedded().await.unwrap();
        assert_eq!((again.stats().dropped, again.stats().servers), (0, 4));
        let made_anew: Vec<_> = fake.take();
        assert!(made_anew.len() <= 4, "only servers: {made_anew:?}");
        let exported = |index: &ToolIndex| serde_json::to_string(&index.entries()).unwrap();
        assert_eq!(exported(&again), exported(&index));
        // Compare the reopened index with a new index, and not with the old index, in which deleted documents affect
        // the weights of words until segments are merged.
        let new = ToolIndex::builder().embedder(Arc::clone(&fake) as Arc<dyn Embedder>).build();
        let pigeon = tool("send_mail", "Sends a letter by pigeon");
        let mail = ServerEntry::new("mail").name("Mail").tool(pigeon);
        new.put_all([mail, files(), odd(), ServerEntry::new("empty")]).unwrap();
        new.embedded().await.unwrap();
        new.get("files", "read_file").unwrap().0.count(17);
        for (new, after) in seen(&new).lines().zip(seen(&again).lines()) {
            assert_eq!(after, new);
        }
        assert_eq!(again.get("files", "read_file").unwrap().tokens(), 17);
        let put = again.put_all([files(), odd()]).unwrap();
        assert_eq!((put.unchanged, put.added + put.changed + put.removed), (5, 0));
    }
}

#[tokio::test]
async fn restored_servers_are_disconnected() {
    let db = with_files(None).await;
    let again = open(&db, None).await;
    let connected = Query::new("file").filter(Filter::default().status(ServerState::Connected));
    let found = || names(&again.search(&connected, &AllTools).unwrap());
    assert!(found().is_empty());
    assert!(!search(&again, "file").is_empty());
    again.set_state("files", ServerState::Connected);
    assert!(!found().is_empty());
}

#[tokio::test]
async fn a_damaged_tool_is_left_out_and_counted() {
    for sql in [
        "UPDATE toolindex_tool SET definition = replace(definition, 'Writes', 'Burns') WHERE name = 'write_file'",
        "UPDATE toolindex_tool SET definition = '{}' WHERE name = 'write_file'",
        "UPDATE toolindex_tool SET categories = '[\"c\"]' WHERE name = 'write_file'",
        "UPDATE toolindex_tool SET keywords = '[\"c\"]' WHERE name = 'write_file'",
        "UPDATE toolindex_tool SET security = '{\"risk_level\":\"safe\",\"permissions_required\":[]}' WHERE name = 'write_file'",
        "UPDATE toolindex_tool SET hash = zeroblob(16) WHERE name = 'write_file'",
    ] {
        let db = with_files(None).await;
        run(&db, sql).await;
        let again = open(&db, None).await;
        assert_eq!((again.stats().tools, again.stats().dropped), (2, 1), "{sql}");
        assert!(again.get("files", "write_file").is_none());
        let put = again.put(files()).unwrap();
        assert_eq!((put.added, put.unchanged), (1, 2), "{sql}");
        again.flush().await.unwrap();
        let whole = open(&db, None).await;
        assert_eq!((whole.stats().tools, whole.stats().dropped), (3, 0), "{sql}");
    }
    let db = with_files(None).await;
    run(&db, "UPDATE toolindex_server SET description = 'Other'").await;
    assert_eq!(open(&db, None).await.stats().dropped, 3, "texts of the server count");
}

#[tokio::test]
async fn vectors_of_another_model_are_replaced_and_until_then_not_used() {
    let old = Fake::new("old", Cost::Small);
    let db = with_files(Some(&old)).await;

    // An index that is opened without an embedder must leave the vectors in the database.
    let none = open(&db, None).await;
    assert_eq!(none.stats().embedded, 0);
    none.put(mail()).unwrap();
    none.flush().await.unwrap();
    old.take();
    assert_eq!(open(&db, Some(&old)).await.stats().embedded, 4);
    let made = old.take();
    assert!(!made.iter().any(|text| text.contains("read")), "{made:?}");

    let new = Fake::new("new", Cost::Large);
    let index = open(&db, Some(&new)).await;
    index.embedded().await.unwrap();
    assert_eq!(index.stats().embedded, 4);
    assert!(new.take().len() >= 4);
    index.flush().await.unwrap();
    let again = open(&db, Some(&new)).await;
    again.embedded().await.unwrap();
    assert!(new.take().len() <= 2, "only the servers");
}

#[tokio::test]
async fn an_index_that_is_opened_read_only_computes_no_vectors_of_tools_and_stores_nothing() {
    let old = Fake::new("old", Cost::Small);
    let db = with_files(Some(&old)).await;
    let (small, large) = (Fake::new("new", Cost::Small), Fake::new("new", Cost::Large));
    for (fake, embedded) in [(&small, 0), (&large, 0), (&old, 3)] {
        fake.take();
        let builder = ToolIndex::builder().embedder(Arc::clone(fake) as Arc<dyn Embedder>);
        let reader = builder.open_read_only(db.clone()).await.unwrap();
        reader.embedded().await.unwrap();
        assert_eq!((reader.stats().tools, reader.stats().embedded), (3, embedded));
        assert!(fake.take().len() <= 1, "only the server");
        reader.put(mail()).unwrap();
        reader.remove("files").unwrap();
        reader.embedded().await.unwrap();
        reader.flush().await.unwrap();
    }
    old.take();
    let again = open(&db, Some(&old)).await;
    assert_eq!((again.stats().tools, again.stats().embedded), (3, 3));
    assert!(old.take().len() <= 1, "only the server");
}

#[tokio::test]
async fn a_changed_tool_is_embedded_after_a_restart_if_it_was_not_before() {
    let db = Db::in_memory().await.unwrap();
    let fake = Fake::new("slow", Cost::Large);
    let index = open(&db, Some(&fake)).await;
    index.put(mail()).unwrap();
    index.embedded().await.unwrap();
    index.flush().await.unwrap();
    drop(index);
    // A process without the model changes the tool.
    let other = open(&db, None).await;
    let changed = tool("send_mail", "Throws a bottle into the sea");
    other.put(ServerEntry::new("mail").name("Mail").tool(changed)).unwrap();
    other.flush().await.unwrap();
    fake.take();
    let again = open(&db, Some(&fake)).await;
    assert_eq!(again.stats().embedded, 1, "the old one serves until there is a new one");
    again.embedded().await.unwrap();
    assert!(fake.take().iter().any(|text| text.contains("bottle")));
}

#[tokio::test]
async fn an_index_in_memory_has_nothing_to_flush() {
    let index = ToolIndex::new();
    index.put(files()).unwrap();
    index.flush().await.unwrap();
}

#[tokio::test]
async fn an_index_with_a_closed_database_still_works_and_reports_it() {
    let db = Db::in_memory().await.unwrap();
    let index = open(&db, None).await;
    db.close().await;
    index.put(files()).unwrap();
    assert!(!search(&index, "file").is_empty());
    assert!(matches!(index.flush().await, Err(crate::IndexError::Store(_))));
    let closed = Db::in_memory().await.unwrap();
    closed.clone().close().await;
    assert!(ToolIndex::builder().open(closed).await.is_err());
}
