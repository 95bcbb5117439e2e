//! Tests with many changes.

use super::*;

fn server(id: &str, tools: usize) -> ServerEntry {
    let tools =
        (0..tools).map(|number| tool(&format!("{id}_tool_{number}"), "shared words of all"));
    ServerEntry::new(id).tools(tools)
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
