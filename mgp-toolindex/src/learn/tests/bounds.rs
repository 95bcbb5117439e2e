//! A history stays within its bounds, whoever fills it.
//!
//! Applies to: inbound.

use mgp_types::service::Principal;

use super::{me, taught, views};
use crate::learn::entry::{Owner, Word};
use crate::learn::shelf::{Fresh, Shelf};
use crate::learn::{History, HistoryConfig, Share};

const DAY: u64 = 24 * 3600;

fn fresh(subject: u64, query: u64, now: u64) -> Fresh<'static> {
    let words: Vec<Word> = vec![query % 97, 1000 + query % 89];
    Fresh {
        owner: Owner { tenant: "t".into(), subject: subject.to_string().into() },
        key: u128::from(subject) << 64 | u128::from(query),
        text: None,
        words,
        vector: None,
        now,
    }
}

#[test]
fn however_many_calls_leave_what_the_bounds_say() {
    let config = HistoryConfig::new().share(Share::Tenant).most(90, 60).most_per_tool(5);
    let mut shelf = Shelf::new(config);
    // A number that looks random, the same in every run.
    let mut seed = 1_u64;
    for _ in 0..200_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = seed >> 33;
        shelf.remember(&fresh(number % 7, number % 3001, 1), &(number % 31).to_string(), 1);
    }
    super::shelves::audit(&shelf);
    let stats = shelf.stats();
    assert!(stats.queries <= 60 && stats.tools <= 31, "{stats:?}");
    assert!(shelf.entries.len() <= 64 && shelf.tools.len() <= 32, "places are used again");
    let book = shelf.books.values().next().unwrap();
    assert!(book.owners.values().all(|turns| turns.len() <= 15), "a quarter each");
    assert!(shelf.tools.iter().all(|tool| tool.of.values().all(|places| places.len() <= 5)));
}

#[test]
fn one_who_floods_does_not_drown_others() {
    let history =
        History::with(HistoryConfig::new().share(Share::Tenant).most(1000, 200).most_per_tool(12));
    taught(&history, &me());
    let flood = Principal::new("t", "flood");
    for n in 0..500 {
        history.record(&flood, &format!("send a mail {n}"), &format!("s.bad{}", n % 3));
    }
    history.settle();
    let told = views(&history, &me(), "send a mail letter");
    assert!(told.iter().any(|view| &*view.tool == "s.tool1"), "{told:?}");
    let shelf = history.0.shelf();
    let flooded = shelf.entries.iter().filter(|entry| entry.owner.subject.as_str() == "flood");
    assert_eq!(flooded.count(), 36, "twelve for each tool");
    assert_eq!(shelf.entries.iter().filter(|e| e.owner.subject.as_str() == "me").count(), 48);
}

#[test]
fn what_was_used_longest_ago_goes_first() {
    let mut shelf = Shelf::new(HistoryConfig::new().most(3, 3));
    for query in 0..3 {
        shelf.remember(&fresh(1, query, 1), "a", 1);
    }
    shelf.remember(&fresh(1, 0, 1), "a", 1);
    shelf.remember(&fresh(1, 3, 1), "a", 1);
    let key = |query| fresh(1, query, 1).key;
    assert!(shelf.knows(key(0)) && !shelf.knows(key(1)));
    assert!(shelf.knows(key(2)) && shelf.knows(key(3)));
}

#[test]
fn a_query_is_forgotten_in_time() {
    let mut shelf = Shelf::new(HistoryConfig::new());
    shelf.remember(&fresh(1, 1, DAY), "a", 1);
    shelf.remember(&fresh(2, 2, 2 * DAY), "a", 1);
    shelf.remember(&fresh(1, 3, 182 * DAY), "b", 1);
    assert_eq!(shelf.stats().queries, 2, "the first one is too old");
    assert!(shelf.knows(fresh(2, 2, 0).key));
    super::shelves::audit(&shelf);
}

#[test]
fn a_query_has_only_so_many_tools_and_the_rarest_goes() {
    let mut shelf = Shelf::new(HistoryConfig::new());
    for tool in 0..200 {
        shelf.remember(&fresh(1, 1, 1), "often", 1);
        shelf.remember(&fresh(1, 1, 1), &tool.to_string(), 1);
    }
    assert_eq!(shelf.stats().tools, 64);
    assert!(shelf.tools.iter().any(|tool| &*tool.id == "often"));
    super::shelves::audit(&shelf);
}
