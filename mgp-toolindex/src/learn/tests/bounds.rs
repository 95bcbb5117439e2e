//! Tests of the limits of a history.

use mgp_types::service::Principal;

use super::{lifts, me, taught};
use crate::learn::query::{Owner, WordHash};
use crate::learn::table::{HistoryTable, NewQuery};
use crate::learn::{History, HistoryConfig, HistoryScope};

const DAY: u64 = 24 * 3600;

fn new_query(subject: u64, query: u64, now: u64) -> NewQuery<'static> {
    let words: Vec<WordHash> = vec![query % 97, 1000 + query % 89];
    NewQuery {
        owner: Owner { tenant: "t".into(), subject: subject.to_string().into() },
        key: u128::from(subject) << 64 | u128::from(query),
        text: None,
        words,
        vector: None,
        now,
    }
}

#[test]
fn the_bounds_hold_after_any_number_of_calls() {
    let config = HistoryConfig::new()
        .scope(HistoryScope::Tenant)
        .max_queries(90, 20)
        .max_queries_per_tool(5);
    let mut table = HistoryTable::new(config);
    // The numbers are pseudo-random, but the same in every run.
    let mut seed = 1_u64;
    for _ in 0..200_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = seed >> 33;
        table.record(&new_query(number % 7, number % 3001, 1), &(number % 31).to_string(), 1);
    }
    super::tables::audit(&table);
    let stats = table.stats();
    assert!(stats.queries <= 90 && stats.tools <= 90 && stats.rankings <= 7, "{stats:?}");
    assert!(table.queries.len() <= 94 && table.tools.len() <= 94, "numbers are used again");
    assert!(table.partitions.values().all(|partition| partition.len() <= 20));
    assert!(table.tools.iter().all(|tool| tool.query_ids.len() <= 5));
}

#[test]
fn a_flood_of_one_subject_does_not_remove_the_queries_of_others() {
    let history = History::with_config(
        HistoryConfig::new()
            .scope(HistoryScope::Tenant)
            .max_queries(1000, 200)
            .max_queries_per_tool(12),
    );
    taught(&history, &me());
    let flood = Principal::new("t", "flood");
    for n in 0..500 {
        history.record(&flood, &format!("send a mail {n}"), &format!("s.bad{}", n % 3));
    }
    history.settle();
    let lifts = lifts(&history, &me(), "send a mail letter");
    assert!(lifts.iter().any(|lift| &*lift.tool == "s.tool1"), "{lifts:?}");
    let table = history.0.table.read();
    let flooded = table.queries.iter().filter(|query| query.owner.subject.as_str() == "flood");
    assert_eq!(flooded.count(), 36, "twelve for each tool");
    assert_eq!(table.queries.iter().filter(|e| e.owner.subject.as_str() == "me").count(), 48);
}

#[test]
fn the_least_recently_used_query_is_removed_first() {
    let mut table = HistoryTable::new(HistoryConfig::new().max_queries(3, 3));
    for query in 0..3 {
        table.record(&new_query(1, query, 1), "a", 1);
    }
    table.record(&new_query(1, 0, 1), "a", 1);
    table.record(&new_query(1, 3, 1), "a", 1);
    let key = |query| new_query(1, query, 1).key;
    assert!(table.contains(key(0)) && !table.contains(key(1)));
    assert!(table.contains(key(2)) && table.contains(key(3)));
}

#[test]
fn a_query_expires() {
    let mut table = HistoryTable::new(HistoryConfig::new());
    table.record(&new_query(1, 1, DAY), "a", 1);
    table.record(&new_query(2, 2, 2 * DAY), "a", 1);
    table.record(&new_query(1, 3, 182 * DAY), "b", 1);
    assert_eq!(table.stats().queries, 2, "the first one has expired");
    assert!(table.contains(new_query(2, 2, 0).key));
    super::tables::audit(&table);
}

#[test]
fn a_query_has_a_bounded_number_of_tools_and_the_rarest_is_removed() {
    let mut table = HistoryTable::new(HistoryConfig::new());
    for tool in 0..200 {
        table.record(&new_query(1, 1, 1), "often", 1);
        table.record(&new_query(1, 1, 1), &tool.to_string(), 1);
    }
    assert_eq!(table.stats().tools, 64);
    assert!(table.tools.iter().any(|tool| &*tool.id == "often"));
    super::tables::audit(&table);
}
