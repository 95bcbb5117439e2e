//! Tests with many servers at once, and with many changes.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::*;

fn server(id: &str, tools: usize) -> ServerEntry {
    let tools =
        (0..tools).map(|number| tool(&format!("{id}_tool_{number}"), "shared words of all"));
    ServerEntry::new(id).tools(tools)
}

#[test]
fn searches_run_while_servers_are_put_and_removed() {
    let index = by_words();
    index.put(server("stays", 5)).unwrap();
    index.put(server("gone", 5)).unwrap();
    index.remove("gone").unwrap();
    let stop = AtomicBool::new(false);
    let searches = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let found = index.search(&Query::new("stays").limit(10), &AllTools).unwrap();
                    let ours = found.hits.iter().filter(|hit| hit.tool.server_id() == "stays");
                    assert_eq!(ours.count(), 5);
                    let found =
                        index.search(&Query::new("shared words").limit(50), &AllTools).unwrap();
                    assert!(found.hits.iter().all(|hit| hit.tool.server_id() != "gone"));
                    assert!(found.hits.iter().all(|hit| hit.tool.description().is_some()));
                    searches.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let index = index.clone();
                scope.spawn(move || {
                    for round in 0..24 {
                        let id = format!("w{writer}{}", round % 5);
                        index.put(server(&id, 1 + round % 7)).unwrap();
                        let query =
                            Query::new(format!("{id} tool")).filter(Filter::new().server(&id));
                        let found = index.search(&query, &AllTools).unwrap();
                        assert_eq!(found.total_available, 1 + round % 7);
                        assert_eq!(found.hits.len(), (1 + round % 7).min(5));
                        if round % 3 == 0 {
                            index.remove(&id).unwrap();
                            assert!(index.tools_of(&id).is_empty());
                        }
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(searches.into_inner() > 0);
    assert_eq!(index.tools_of("stays").len(), 5);
}

#[test]
fn putting_and_removing_leaves_nothing_behind() {
    let index = by_words();
    index.put(server("stays", 50)).unwrap();
    for round in 0..120 {
        index.put(server(&format!("s{}", round % 10), 20 + round % 3)).unwrap();
        if round % 2 == 0 {
            index.remove(&format!("s{}", (round + 5) % 10)).unwrap();
        }
    }
    let now = index.shared.snapshot();
    // There are 50 permanent tools and ten servers of at most 22 tools, so few slots are needed if freed ones are
    // reused.
    assert!(now.catalog.reach() <= 1024);
    assert!(now.catalog.records().all(|(slot, _)| slot < 50 + 10 * 22 + 22));
    let stats = index.stats();
    assert!(stats.segments <= 40, "{}", stats.segments);
    assert_eq!(stats.tools, index.entries().len());
    let words = now.keywords.as_ref().unwrap();
    assert!(words.documents() <= 4 * now.catalog.len() as u64 + 2000, "{}", words.documents());
}
