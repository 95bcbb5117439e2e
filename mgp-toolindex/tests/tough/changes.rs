//! Tools are added and removed without end, each with words of its own: nothing grows.
//!
//! Applies to: both.

use std::time::Duration;

use mgp_toolindex::ToolIndex;
use tokio::time::Instant;

use crate::tools::{by_all, by_words, resident, server};
use crate::wanted;

/// How many tools are added and removed, unless the environment says otherwise.
const CHANGES: u64 = 1_000;

/// How many come and go at a time.
const AT_A_TIME: u64 = 100;

/// How many tools stay.
const STAYING: u64 = 500;

/// How much more memory there may be after all changes than after a tenth of them, in kilobytes.
const GROWTH: u64 = 16 * 1024;

/// Below so many changes memory says nothing.
const TELLING: u64 = 100_000;

#[test]
fn changes_leave_nothing() {
    let changes = wanted("CHANGES", CHANGES);
    let index = ToolIndex::new();
    for number in 0..STAYING / AT_A_TIME {
        let (id, word) = (format!("stays-{number}"), format!("stay{number}er"));
        index.put(server(&id, &word, AT_A_TIME)).unwrap();
    }
    let times = changes / AT_A_TIME;
    let (mut early, begin) = (None, Instant::now());
    for time in 0..times {
        if time == times / 10 {
            early = Some((resident(), search(&index)));
        }
        // Neither the words nor the name of the server were there before.
        let (id, word) = (format!("passes-{time}"), format!("pass{time}er"));
        let put = index.put(server(&id, &word, AT_A_TIME)).unwrap();
        assert_eq!((put.added, put.refused.len()), (usize::try_from(AT_A_TIME).unwrap(), 0));
        assert_eq!(by_words(&index, &word).hits[0].tool.server_id(), id);
        // Every other one is changed before it goes.
        if time % 2 == 0 {
            index.put(server(&id, &format!("{word}again"), AT_A_TIME)).unwrap();
        }
        assert_eq!(index.remove(&id).unwrap(), usize::try_from(AT_A_TIME).unwrap());
    }
    let took = begin.elapsed();
    let (memory, quickness) = early.unwrap();
    assert_eq!(index.stats().tools, usize::try_from(STAYING).unwrap());
    let grown = resident().unwrap_or(0).saturating_sub(memory.unwrap_or(0));
    let slower = search(&index).as_secs_f64() / quickness.as_secs_f64();
    if changes >= TELLING {
        assert!(grown <= GROWTH, "{grown} KiB more after {changes} changes");
        assert!(slower < 3.0, "searches take {slower:.1} times as long");
    }
    println!(
        "tough: {changes} tools added and removed in {:.1} s, {grown} KiB more, searches take {slower:.2} times as long",
        took.as_secs_f64()
    );
}

/// How long a search takes, the best of some.
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
