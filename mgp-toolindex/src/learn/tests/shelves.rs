//! The tables of a history say the same, whatever was done to them.
//!
//! Applies to: inbound.

use std::collections::BTreeMap;

use mgp_types::service::Principal;
use proptest::prelude::*;

use crate::learn::book::Book;
use crate::learn::entry::{Owner, Place};
use crate::learn::shelf::{Fresh, Shelf};
use crate::learn::{Erase, HistoryConfig, Share};

/// Counts everything again.
#[track_caller]
pub(super) fn audit(shelf: &Shelf) {
    let stats = shelf.stats();
    assert_eq!(shelf.entries.iter().count(), stats.queries);
    assert_eq!(shelf.books.values().map(Book::len).sum::<usize>(), stats.queries);
    assert!(shelf.books.values().all(|book| book.len() > 0));
    for book in shelf.books.values() {
        assert_eq!(book.places.count(), book.len());
        assert_eq!(book.owners.values().map(BTreeMap::len).sum::<usize>(), book.len());
        assert_eq!(book.tools.count(), book.names.len());
        for (word, used) in &book.words {
            let mut with: Vec<Place> = book.places.iter().collect();
            with.retain(|place| shelf.entries.get(*place).unwrap().words.contains(word));
            let mut known = used.places.clone();
            known.sort_unstable();
            assert_eq!(known, with);
            for (tool, weight) in &used.tools {
                let counted =
                    with.iter().map(|at| shelf.entries.get(*at).unwrap().weight_of(*tool));
                assert!((counted.sum::<f32>() - weight).abs() < 0.05);
            }
        }
        for tool in book.tools.iter() {
            let entries =
                book.places.iter().map(|place| (place, shelf.entries.get(place).unwrap()));
            let with: Vec<_> = entries.filter(|(_, entry)| entry.weight_of(tool) > 0.0).collect();
            let counted: f32 = with.iter().map(|(_, entry)| entry.weight_of(tool)).sum();
            assert!(!with.is_empty() && (counted - shelf.weights[tool as usize]).abs() < 0.05);
            let used = shelf.tools.get(tool).unwrap();
            assert_eq!(used.of.values().map(Vec::len).sum::<usize>(), with.len());
            let Some(rows) = &shelf.rows else { continue };
            for (at, sum) in used.sum.iter().enumerate() {
                let counted: f32 = with
                    .iter()
                    .filter_map(|(place, entry)| {
                        Some(rows.vector(*place)?[at] * entry.weight_of(tool))
                    })
                    .sum();
                assert!((counted - sum).abs() < 0.05);
            }
        }
    }
    assert_eq!(shelf.books.values().map(|book| book.names.len()).sum::<usize>(), stats.tools);
}

#[derive(Clone, Debug)]
enum Step {
    Call { owner: u8, query: u8, tool: u8, times: u32, has_vector: bool },
    Tool(u8),
    Owner(u8),
    Tenant(u8),
    Vector(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (0..4_u8, 0..12_u8, 0..6_u8, 1..5_u32, any::<bool>()).prop_map(
            |(owner, query, tool, times, has_vector)| Step::Call {
                owner, query, tool, times, has_vector
            }
        ),
        1 => (0..6_u8).prop_map(Step::Tool),
        1 => (0..4_u8).prop_map(Step::Owner),
        1 => (0..2_u8).prop_map(Step::Tenant),
        2 => (0..40_u8).prop_map(Step::Vector),
    ]
}

fn owner(number: u8) -> Principal {
    Principal::new((number % 2).to_string(), (number / 2).to_string())
}

fn vector(number: u8) -> Vec<f32> {
    (0..5_u8).map(|at| f32::from(number.wrapping_mul(31).wrapping_add(at * 7) % 11) - 5.0).collect()
}

proptest! {
    #[test]
    fn whatever_happens_all_tables_agree(
        steps in prop::collection::vec(step(), 0..120),
        is_shared in any::<bool>(),
    ) {
        let share = if is_shared { Share::Tenant } else { Share::Subject };
        let mut shelf = Shelf::new(HistoryConfig::new().share(share).most(20, 12).most_per_tool(4));
        shelf.dimensions(Some(5));
        for step in steps {
            match step {
                Step::Call { owner: who, query, tool, times, has_vector } => {
                    let fresh = Fresh {
                        owner: Owner::of(&owner(who)),
                        key: u128::from(who) << 64 | u128::from(query),
                        text: Some("text"),
                        words: vec![u64::from(query % 5), u64::from(10 + query % 3)],
                        vector: has_vector.then(|| vector(query)),
                        now: 1,
                    };
                    shelf.remember(&fresh, &tool.to_string(), times);
                }
                Step::Tool(tool) => drop(shelf.erase(Erase::Tool(&tool.to_string()))),
                Step::Owner(who) => drop(shelf.erase(Erase::Principal(&owner(who)))),
                Step::Tenant(who) => drop(shelf.erase(Erase::Tenant(owner(who).tenant()))),
                Step::Vector(at) => {
                    if shelf.entries.get(at.into()).is_some() {
                        shelf.place_vector(at.into(), &vector(at));
                    }
                }
            }
            audit(&shelf);
        }
        shelf.erase(Erase::All);
        audit(&shelf);
        prop_assert!(shelf.books.is_empty() && shelf.stats().vectors == 0);
        prop_assert!(shelf.bare(None).is_none());
    }
}
