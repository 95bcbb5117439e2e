//! Adds and removes tools thousands of times, each with its own words, and checks that neither memory nor search time
//! grows.

use std::time::Duration;

use mgp_toolindex::ToolIndex;
use tokio::time::Instant;

use super::setting;
use super::tools::{by_all, by_words, resident, server};

/// The number of tools that are added and removed by default.
const CHANGES: u64 = 1_000;

/// The number of tools of each server; the test adds and removes whole servers.
const TOOLS_PER_CHANGE: u64 = 100;

/// The number of tools that are never removed.
const PERMANENT_TOOLS: u64 = 500;

/// The maximum growth of memory, in kilobytes, measured after a tenth of the changes.
const MAX_GROWTH_KB: u64 = 16 * 1024;

/// The minimum number of changes for which memory is compared; with fewer changes, memory varies too much.
const MIN_COMPARED_CHANGES: u64 = 100_000;

#[test]
fn memory_does_not_grow_with_changes() {
    let changes = setting("CHANGES", CHANGES);
    let index = ToolIndex::new();
    for number in 0..PERMANENT_TOOLS / TOOLS_PER_CHANGE {
        let (id, word) = (format!("stays-{number}"), format!("stay{number}er"));
        index.put(server(&id, &word, TOOLS_PER_CHANGE)).unwrap();
    }
    let times = changes / TOOLS_PER_CHANGE;
    let (mut early, begin) = (None, Instant::now());
    for time in 0..times {
        if time == times / 10 {
            early = Some((resident(), search(&index)));
        }
        // The words and the server id are new each time.
        let (id, word) = (format!("passes-{time}"), format!("pass{time}er"));
        let put = index.put(server(&id, &word, TOOLS_PER_CHANGE)).unwrap();
        assert_eq!((put.added, put.refused.len()), (usize::try_from(TOOLS_PER_CHANGE).unwrap(), 0));
        assert_eq!(by_words(&index, &word).hits[0].tool.server_id(), id);
        // Every second server is changed before it is removed.
        if time % 2 == 0 {
            index.put(server(&id, &format!("{word}again"), TOOLS_PER_CHANGE)).unwrap();
        }
        assert_eq!(index.remove(&id).unwrap(), usize::try_from(TOOLS_PER_CHANGE).unwrap());
    }
    let took = begin.elapsed();
    let (memory, quickness) = early.unwrap();
    assert_eq!(index.stats().tools, usize::try_from(PERMANENT_TOOLS).unwrap());
    let grown = resident().unwrap_or(0).saturating_sub(memory.unwrap_or(0));
    let slower = search(&index).as_secs_f64() / quickness.as_secs_f64();
    if changes >= MIN_COMPARED_CHANGES {
        assert!(grown <= MAX_GROWTH_KB, "{grown} KiB more after {changes} changes");
        assert!(slower < 3.0, "searches take {slower:.1} times as long");
    }
    println!(
        "tough: {changes} tools added and removed in {:.1} s, {grown} KiB more, searches take {slower:.2} times as long",
        took.as_secs_f64()
    );
}

/// Returns the shortest time of several searches.
fn search(index: &ToolIndex) -> Duration {
    let one = |number: u64| {
        let begin = Instant::now();
        let found =
            by_all(index, &format!("read part {number} of what stay{}er keeps", number % 5));
        assert!(!found.hits.is_empty());
        begin.elapsed()
    };
    (0..50).map(one).min().unwrap()
}
