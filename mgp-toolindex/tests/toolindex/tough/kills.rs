//! Kills a process while it changes an index. When the index is opened again, it must have the state before or after
//! one of the changes, never a part of a change, and searches must work.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Duration;

use mgp_testkit::{ChildTest, child_role, report, temp_dir};
use mgp_toolindex::{AllTools, Query, ServerEntry, ToolIndex};
use mgp_types::mcp::Tool;
use mgp_types::mgp::SearchStrategy;
use mgp_types::store::Db;
use tokio::time::Instant;

use super::setting;
use super::tools::{by_words, server};

/// The number of kills by default.
const KILLS: u64 = 5;

/// The number of servers that are changed one after the other.
const SERVERS: u64 = 20;

/// The number of servers that never change. It is large enough that the index writes its postings several times during
/// the changes of the other servers.
const PERMANENT_SERVERS: u64 = 12;
const PERMANENT_TOOLS: u64 = 100;

/// The number of changes between two flushes.
const CHANGES_PER_FLUSH: u64 = 16;

/// The number of a change. Each change replaces the tools of the server after the server of the previous change; every
/// seventh change removes the server instead.
#[derive(Clone, Copy)]
struct Step(u64);

impl Step {
    fn server(self) -> String {
        format!("server-{}", self.0 % SERVERS)
    }

    fn word(self) -> String {
        format!("step{}x", self.0)
    }

    /// Returns the number of tools of the server after the change; `None` if it is removed.
    fn tools(self) -> Option<u64> {
        (self.0 % 7 != 3).then_some(1 + self.0 % 30)
    }

    fn make(self, index: &ToolIndex) {
        match self.tools() {
            Some(tools) => {
                let put = index.put(server(&self.server(), &self.word(), tools)).unwrap();
                assert!(put.refused.is_empty());
            }
            None => {
                index.remove(&self.server()).unwrap();
            }
        }
    }
}

async fn open(folder: &Path) -> (Db, ToolIndex) {
    let db = Db::open(folder.join("index.db")).await.unwrap();
    let index = ToolIndex::builder().open(db.clone()).await.unwrap();
    (db, index)
}

/// Returns the servers that never change.
fn permanent_servers() -> impl Iterator<Item = ServerEntry> {
    (0..PERMANENT_SERVERS).map(|number| {
        server(&format!("ground-{number}"), &format!("ground{}x", number % 5), PERMANENT_TOOLS)
    })
}

/// Returns a new index in memory with the tools of `index`.
fn rebuilt(index: &ToolIndex) -> ToolIndex {
    // Add the servers in the same order, because their order decides between tools with equal scores.
    let mut ids: Vec<_> = index.entries().into_iter().map(|entry| entry.server_id).collect();
    ids.dedup();
    let servers = ids.iter().map(|id| {
        let tools = index.tools_of(id);
        let tools = tools.iter().map(|tool| serde_json::from_str::<Tool>(tool.definition()));
        server(id, "", 0).tools(tools.map(Result::unwrap))
    });
    let made = ToolIndex::builder().without_embedder().build();
    made.put_all(servers.collect::<Vec<_>>()).unwrap();
    made
}

/// Returns the scores of the best tools of a keyword search.
fn scores(index: &ToolIndex, text: &str) -> Vec<f32> {
    let query = Query::new(text).limit(50).strategy(SearchStrategy::Keyword);
    let found = index.search(&query, &AllTools).unwrap();
    found.hits.into_iter().map(|hit| hit.score).collect()
}

/// Returns the last change that the index contains; panics if the index equals no state between `from` and `to`.
fn last_change(index: &ToolIndex, from: u64, to: u64) -> u64 {
    let mut there: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in index.entries() {
        if entry.server_id.starts_with("ground") {
            continue;
        }
        there.entry(entry.server_id).or_default().push(entry.name);
    }
    for names in there.values_mut() {
        names.sort();
    }
    (from..=to)
        .rev()
        .find(|last| {
            let mut expected = BTreeMap::new();
            // The changes go through the servers one after the other, so the last `SERVERS` changes include the last
            // change of each server.
            for step in (1..=*last).rev().take(usize::try_from(SERVERS).unwrap()).map(Step) {
                if let Some(tools) = step.tools() {
                    let names = (0..tools).map(|number| format!("{}_part_{number}", step.word()));
                    let mut names: Vec<_> = names.collect();
                    names.sort();
                    expected.insert(step.server(), names);
                }
            }
            expected == there
        })
        .unwrap_or_else(|| panic!("no state between {from} and {to} equals the index: {there:?}"))
}

/// Makes changes until the process is killed; only runs in a process that the test starts.
#[tokio::test]
async fn child() {
    let Some((_, folder)) = child_role() else { return };
    let (_db, index) = open(&folder).await;
    let reached = std::fs::read_to_string(folder.join("reached")).unwrap();
    let mut step: u64 = reached.parse().unwrap();
    if step == 0 {
        index.put_all(permanent_servers()).unwrap();
        index.flush().await.unwrap();
    }
    report("ready", step);
    loop {
        step += 1;
        // Print each change before it can be in the file, so that the parent process knows all changes that may be
        // there.
        report("begun", step);
        Step(step).make(&index);
        if step.is_multiple_of(CHANGES_PER_FLUSH) {
            index.flush().await.unwrap();
            report("flushed", step);
        }
    }
}

#[tokio::test]
async fn an_index_killed_at_any_time_reopens_in_a_valid_state() {
    let kills = setting("KILLS", KILLS);
    let folder = temp_dir();
    let (mut reached, mut made, mut slowest) = (0, 0, Duration::ZERO);
    for kill in 0..kills {
        std::fs::write(folder.path().join("reached"), reached.to_string()).unwrap();
        let mut child = ChildTest::start("tough::kills::child", "writer", folder.path());
        child.wait_for("ready");
        thread::sleep(Duration::from_micros(5_000 + kill * 61_919 % 300_000));
        let [begun, flushed] = child.kill_and_read(["begun", "flushed"]);
        let (begun, flushed) = (begun.unwrap_or(reached), flushed.unwrap_or(reached));

        let begin = Instant::now();
        let (db, index) = open(folder.path()).await;
        slowest = slowest.max(begin.elapsed());
        // The index must contain all flushed changes, and only changes that had begun.
        let last = last_change(&index, flushed, begun);
        for step in (1..=last).rev().take(usize::try_from(SERVERS).unwrap()).map(Step) {
            let found = by_words(&index, &step.word());
            let names = found.hits.iter().map(|hit| hit.tool.server_id());
            assert_eq!(names.into_iter().any(|id| id == step.server()), step.tools().is_some());
        }
        // The postings that were read from the file must give the same scores as postings built from the tools.
        let expected = rebuilt(&index);
        assert_eq!(index.len(), expected.len());
        let word = Step(last).word();
        for text in [&*word, "ground3x part 7", "reads what it keeps", "part 12"] {
            assert_eq!(scores(&index, text), scores(&expected, text), "{text}");
        }
        made += last - reached;
        reached = last;
        drop(index);
        db.close().await;
    }
    assert!(made > 0, "no change was made in {kills} runs");
    println!(
        "tough: {kills} kills, {made} changes stored whole and in order, opened in {:.0} ms at worst",
        slowest.as_secs_f64() * 1000.0
    );
}
