//! A process that indexes is killed at any moment: what is opened after is what some moment was, and can be searched.
//!
//! Applies to: both.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Duration;

use mgp_toolindex::{Everything, Query, ServerEntry, ToolIndex};
use mgp_types::mcp::Tool;
use mgp_types::mgp::SearchStrategy;
use mgp_types::store::Db;
use tokio::time::Instant;

use crate::process::{Folder, Running, say, started_in};
use crate::tools::{by_words, server};
use crate::wanted;

/// How often a process is killed, unless the environment says otherwise.
const KILLS: u64 = 5;

/// How many servers take turns.
const SERVERS: u64 = 20;

/// Servers that never change, and their tools: enough that words are kept, again and again while others change.
const GROUND: u64 = 12;
const GROUND_TOOLS: u64 = 100;

/// After so many changes it is waited until all are kept.
const FLUSHED: u64 = 16;

/// One change: each of the servers in turn is put with other tools, and now and then taken away.
#[derive(Clone, Copy)]
struct Step(u64);

impl Step {
    fn server(self) -> String {
        format!("server-{}", self.0 % SERVERS)
    }

    fn word(self) -> String {
        format!("step{}x", self.0)
    }

    /// How many tools the server has after it; none if it was taken away.
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

/// What is kept in a folder.
async fn opened(folder: &Path) -> (Db, ToolIndex) {
    let db = Db::open(folder.join("index.db")).await.unwrap();
    let index = ToolIndex::builder().open(db.clone()).await.unwrap();
    (db, index)
}

/// Servers that are there from the start.
fn ground() -> impl Iterator<Item = ServerEntry> {
    (0..GROUND).map(|number| {
        server(&format!("ground-{number}"), &format!("ground{}x", number % 5), GROUND_TOOLS)
    })
}

/// An index that was never kept, of the tools that one has.
fn made_anew(index: &ToolIndex) -> ToolIndex {
    // In their order, which decides between tools that fit as well.
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

/// How well the best tools fit a text by their words.
fn scores(index: &ToolIndex, text: &str) -> Vec<f32> {
    let query = Query::new(text).most(50).strategy(SearchStrategy::Keyword);
    let found = index.search(&query, &Everything).unwrap();
    found.hits.into_iter().map(|hit| hit.score).collect()
}

/// The change after which the index was what it is; panics if there is none.
fn moment(index: &ToolIndex, from: u64, to: u64) -> u64 {
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
            // The last change of each server is among the last of all.
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
        .unwrap_or_else(|| panic!("kept is what no moment between {from} and {to} was: {there:?}"))
}

/// What the process that is killed does: one change after the other.
#[tokio::test]
async fn child() {
    let Some(folder) = started_in() else { return };
    let (_db, index) = opened(&folder).await;
    let reached = std::fs::read_to_string(folder.join("reached")).unwrap();
    let mut step: u64 = reached.parse().unwrap();
    if step == 0 {
        index.put_all(ground()).unwrap();
        index.flush().await.unwrap();
    }
    say("ready", step);
    loop {
        step += 1;
        // What may be kept is known before it is.
        say("begun", step);
        Step(step).make(&index);
        if step.is_multiple_of(FLUSHED) {
            index.flush().await.unwrap();
            say("kept", step);
        }
    }
}

#[tokio::test]
async fn killed_at_any_moment() {
    let kills = wanted("KILLS", KILLS);
    let folder = Folder::new("tough-kills");
    let (mut reached, mut made, mut slowest) = (0, 0, Duration::ZERO);
    for kill in 0..kills {
        std::fs::write(folder.path().join("reached"), reached.to_string()).unwrap();
        let mut child = Running::start("kills::child", folder.path());
        child.hear("ready");
        thread::sleep(Duration::from_micros(5_000 + kill * 61_919 % 300_000));
        let [begun, kept] = child.kill(["begun", "kept"]);
        let (begun, kept) = (begun.unwrap_or(reached), kept.unwrap_or(reached));

        let begin = Instant::now();
        let (db, index) = opened(folder.path()).await;
        slowest = slowest.max(begin.elapsed());
        // What was flushed is there, and nothing that had not begun.
        let last = moment(&index, kept, begun);
        for step in (1..=last).rev().take(usize::try_from(SERVERS).unwrap()).map(Step) {
            let found = by_words(&index, &step.word());
            let names = found.hits.iter().map(|hit| hit.tool.server_id());
            assert_eq!(names.into_iter().any(|id| id == step.server()), step.tools().is_some());
        }
        // Words that were kept are those of the tools there are.
        let anew = made_anew(&index);
        assert_eq!(index.len(), anew.len());
        let word = Step(last).word();
        for text in [&*word, "ground3x part 7", "reads what it keeps", "part 12"] {
            assert_eq!(scores(&index, text), scores(&anew, text), "{text}");
        }
        made += last - reached;
        reached = last;
        drop(index);
        db.close().await;
    }
    assert!(made > 0, "in {kills} lives no change was made");
    println!(
        "tough: {kills} kills, {made} changes kept whole and in order, opened in {:.0} ms at worst",
        slowest.as_secs_f64() * 1000.0
    );
}
