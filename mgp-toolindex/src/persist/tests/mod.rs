//! Tests of the index in a database.

mod damage;

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use bytestring::ByteString;
use mgp_testkit::temp_dir;
use mgp_types::store::Db;

use super::queue::{MAX_QUEUED, Queue};
use super::tables;
use super::{
    Change, IndexStore, LoadedServer, NewServer, NewTool, NewVector, ServerRow, WriteMode,
};
use crate::catalog::{
    Entry, IndexedTool, LabelInterner, SecuritySource, Server, Slot, Text, ToolFeatures,
};

const FILE: &str = "index.db";

/// Returns a tool whose definition and hash depend on its version.
fn tool(server: &str, name: &str, version: u32) -> IndexedTool {
    let mut labels = LabelInterner::new();
    let none: [&str; 0] = [];
    let definition = format!(r#"{{"name":"{name}","inputSchema":{{}},"version":{version}}}"#);
    let mut hash = [0; 16];
    hash[..4].copy_from_slice(&version.to_le_bytes());
    hash[15] = 1;
    IndexedTool(Arc::new(Entry {
        name: Text::of(name, &definition),
        definition: ByteString::from(definition),
        server: Arc::new(Server {
            number: 0,
            id: server.into(),
            name: None,
            description: None,
            categories: labels.list(&none),
        }),
        description: None,
        security: None,
        security_source: SecuritySource::Server,
        features: ToolFeatures::default(),
        categories: labels.list(&["derived"]),
        keywords: labels.list(&none),
        hash,
        tokens: AtomicU32::new(9),
    }))
}

fn row(version: u32) -> Box<[i8]> {
    vec![1, -1, i8::try_from(version % 100).unwrap()].into()
}

fn new_tool(server: &str, name: &str, slot: Slot, version: u32) -> NewTool {
    NewTool {
        mode: WriteMode::IfChanged,
        slot,
        tool: tool(server, name, version),
        categories: vec!["given".to_owned()],
        keywords: Vec::new(),
    }
}

fn vector(server: &str, name: &str, version: u32, model: &str) -> NewVector {
    NewVector { tool: tool(server, name, version), model: model.into(), row: row(version) }
}

/// Returns the changes that store a server with tools of one version, and their vectors.
fn put(server: &str, tools: u32, version: u32) -> Vec<Change> {
    let name = |at| format!("tool{at}");
    let new = (0..tools).map(|at| new_tool(server, &name(at), at, version)).collect();
    let vectors = (0..tools).map(|at| vector(server, &name(at), version, "model-1")).collect();
    vec![put_tools(server, new), Change::Vectors(vectors)]
}

fn put_tools(server: &str, tools: Vec<NewTool>) -> Change {
    let id = server.to_owned();
    let name = Some(format!("Server {server}"));
    let server = ServerRow { id, name, description: None, categories: vec!["files".to_owned()] };
    Change::Put(NewServer { server, tools })
}

fn versions_of(servers: &[LoadedServer]) -> Vec<(String, Vec<u32>)> {
    let version = |hash: [u8; 16]| u32::from_le_bytes(hash[..4].try_into().unwrap());
    let mut all: Vec<_> = servers
        .iter()
        .map(|server| {
            let versions = server.tools.iter().map(|tool| version(tool.hash)).collect();
            (server.server.id.clone(), versions)
        })
        .collect();
    all.sort();
    all
}

fn expected(servers: &[(&str, &[u32])]) -> Vec<(String, Vec<u32>)> {
    servers.iter().map(|(id, versions)| ((*id).to_owned(), versions.to_vec())).collect()
}

async fn read(db: &Db) -> Vec<LoadedServer> {
    IndexStore::load(db).await.unwrap().servers
}

#[tokio::test]
async fn an_index_of_an_older_program_is_read_without_a_change_of_its_tables() {
    let db = Db::in_memory().await.unwrap();
    let count = async || {
        let sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name LIKE 'tool%'";
        db.read(move |conn| Ok(conn.query_row(sql, [], |row| row.get::<_, u32>(0))?)).await.unwrap()
    };
    assert!(read(&db).await.is_empty());
    assert_eq!(count().await, 0);

    db.migrate(tables::NAMESPACE, &tables::STEPS[..1]).await.unwrap();
    let changes = [put_tools("a", vec![new_tool("a", "tool0", 0, 1)])];
    db.write(move |conn| tables::apply(conn, &changes)).await.unwrap();
    assert_eq!(versions_of(&read(&db).await), expected(&[("a", &[1])]));
    assert_eq!(count().await, 3);
    drop(IndexStore::open(db.clone()).await.unwrap());
    assert_eq!(count().await, 4);
}

#[tokio::test]
async fn a_server_is_replaced_whole() {
    let db = Db::in_memory().await.unwrap();
    let (store, _) = IndexStore::open(db.clone()).await.unwrap();
    store.push(put("a", 3, 1));
    store.push(put("b", 2, 2));
    let changed = vec![
        new_tool("a", "tool1", 9, 5),
        new_tool("a", "tool0", 4, 1),
        new_tool("a", "new", 5, 6),
    ];
    store.push(vec![put_tools("a", changed)]);
    store.flush().await.unwrap();
    let all = read(&db).await;
    assert_eq!(
        versions_of(&all),
        expected(&[("a", &[1, 6, 5]), ("b", &[2, 2])]),
        "in the order of slots"
    );
    let a = all.iter().find(|server| server.server.id == "a").unwrap();
    let made_of: Vec<_> =
        a.tools.iter().map(|tool| tool.vector.as_ref().map(|vector| vector.hash[0])).collect();
    assert_eq!(made_of, [Some(1), None, Some(1)], "the vector of a tool that changed is kept");

    store.push(vec![Change::Remove("a".to_owned())]);
    store.push(vec![Change::Remove("unknown".to_owned())]);
    store.flush().await.unwrap();
    assert_eq!(versions_of(&read(&db).await), expected(&[("b", &[2, 2])]));
    let left = |conn: &mgp_types::store::sql::Connection| {
        let sql = "SELECT count(*) FROM toolindex_vector";
        Ok(conn.query_row(sql, [], |row| row.get::<_, i64>(0))?)
    };
    assert_eq!(db.read(left).await.unwrap(), 2);
}

#[tokio::test]
async fn vectors_and_counts_of_changed_tools_are_ignored() {
    let db = Db::in_memory().await.unwrap();
    let (store, _) = IndexStore::open(db.clone()).await.unwrap();
    store.push(put("a", 2, 1));
    let vectors = [("tool0", 1), ("tool1", 2), ("gone", 1)];
    let vectors = vectors.map(|(name, version)| vector("a", name, version, "model-2"));
    store.push(vec![Change::Vectors(vectors.into())]);
    let old = tool("a", "tool1", 2);
    old.0.count(5);
    store.push(vec![Change::Counts(vec![old])]);
    store.flush().await.unwrap();
    let all = read(&db).await;
    let vectors: Vec<_> =
        all[0].tools.iter().map(|tool| tool.vector.as_ref().unwrap().model.to_string()).collect();
    assert_eq!(vectors, ["model-2", "model-1"]);
    assert_eq!(all[0].tools[1].tokens, None);
}

#[tokio::test]
async fn of_two_processes_with_one_file_the_last_writer_wins() {
    let folder = temp_dir();
    let (one, _) =
        IndexStore::open(Db::open(folder.path().join(FILE)).await.unwrap()).await.unwrap();
    let (two, _) =
        IndexStore::open(Db::open(folder.path().join(FILE)).await.unwrap()).await.unwrap();
    for version in 1..20 {
        one.push(put("shared", 4, version));
        one.push(put("one", 1, version));
        two.push(put("shared", 2, 100 + version));
        two.push(put("two", 1, version));
    }
    one.flush().await.unwrap();
    two.flush().await.unwrap();
    one.push(put("shared", 3, 1));
    one.flush().await.unwrap();
    let all = read(&Db::open(folder.path().join(FILE)).await.unwrap()).await;
    let servers = expected(&[("one", &[19]), ("shared", &[1, 1, 1]), ("two", &[19])]);
    assert_eq!(versions_of(&all), servers);
}

#[tokio::test]
async fn the_queue_is_bounded_and_skips_only_whole_states() {
    let db = Db::in_memory().await.unwrap();
    db.migrate(tables::NAMESPACE, tables::STEPS).await.unwrap();
    let mut queue = Queue::new(["kept".to_owned()]);
    queue.push(vec![Change::Remove("kept".to_owned())]);
    queue.push(vec![Change::Remove("not stored".to_owned())]);
    queue.push(put("b", 2, 1));
    for version in 0..5 * u32::try_from(MAX_QUEUED).unwrap() {
        // Only the first change of a server adds vectors; later changes of the same tools have no vectors.
        if version == 0 {
            queue.push(put("a", 1, 3));
        }
        queue.push(vec![put_tools("a", vec![new_tool("a", "tool0", 0, 3)])]);
        queue.push(put(&format!("short-lived {version}"), 1, 1));
        queue.push(vec![Change::Remove(format!("short-lived {version}"))]);
        assert!(queue.len() <= MAX_QUEUED);
    }
    let newest = queue.newest;
    let (mut through, mut removed) = (0, Vec::new());
    while let Some(batch) = queue.next() {
        assert!(batch.through > through);
        through = batch.through;
        for change in &batch.changes {
            if let Change::Remove(id) = change {
                removed.push(id.clone());
            }
        }
        db.write(move |conn| tables::apply(conn, &batch.changes)).await.unwrap();
    }
    assert_eq!(through, newest);
    assert_eq!(removed[0], "kept");
    assert!(removed.len() < 2 * MAX_QUEUED && !removed.contains(&"not stored".to_owned()));
    let all = read(&db).await;
    assert_eq!(versions_of(&all), expected(&[("a", &[3]), ("b", &[1, 1])]));
    assert!(all.iter().flat_map(|server| &server.tools).all(|tool| tool.vector.is_some()));
}

#[tokio::test]
async fn merged_changes_keep_the_vectors_of_two_tools_with_the_same_id() {
    let db = Db::in_memory().await.unwrap();
    db.migrate(tables::NAMESPACE, tables::STEPS).await.unwrap();
    let mut queue = Queue::new([]);
    for (server, name) in [("a", "b.c"), ("a.b", "c")] {
        let vectors = vec![vector(server, name, 1, "model-1")];
        let new = put_tools(server, vec![new_tool(server, name, 0, 1)]);
        queue.push(vec![new, Change::Vectors(vectors)]);
    }
    for _ in 0..MAX_QUEUED {
        queue.push(Vec::new());
    }
    while let Some(batch) = queue.next() {
        db.write(move |conn| tables::apply(conn, &batch.changes)).await.unwrap();
    }
    let all = read(&db).await;
    assert_eq!(versions_of(&all), expected(&[("a", &[1]), ("a.b", &[1])]));
    assert!(all.iter().flat_map(|server| &server.tools).all(|tool| tool.vector.is_some()));
}

#[tokio::test]
async fn a_failed_write_is_reported_and_retried() {
    let db = Db::in_memory().await.unwrap();
    let (store, _) = IndexStore::open(db.clone()).await.unwrap();
    store.flush().await.unwrap();
    let rename = |from: &str, to: &str| {
        let sql = format!("ALTER TABLE {from} RENAME TO {to}");
        db.write(move |conn| Ok(conn.execute_batch(&sql)?))
    };
    rename("toolindex_server", "elsewhere").await.unwrap();
    store.push(put("a", 1, 1));
    let error = store.flush().await.unwrap_err();
    assert!(error.to_string().contains("no such table"), "{error}");
    store.push(put("b", 1, 1));
    assert!(store.flush().await.is_err());
    rename("elsewhere", "toolindex_server").await.unwrap();
    store.flush().await.unwrap();
    assert_eq!(versions_of(&read(&db).await), expected(&[("a", &[1]), ("b", &[1])]));
}

#[tokio::test]
async fn queued_changes_are_written_after_the_last_handle_is_dropped() {
    let folder = temp_dir();
    let (store, _) =
        IndexStore::open(Db::open(folder.path().join(FILE)).await.unwrap()).await.unwrap();
    for version in 0..50 {
        store.push(put("a", 20, version));
    }
    let mut progress = store.progress();
    drop(store);
    while progress.changed().await.is_ok() {}
    let all = read(&Db::open(folder.path().join(FILE)).await.unwrap()).await;
    assert_eq!(versions_of(&all), expected(&[("a", &[49; 20])]));
}
