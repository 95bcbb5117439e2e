//! Tests that the tables of a history are consistent after any sequence of operations.

use mgp_types::service::Principal;
use proptest::prelude::*;

use crate::learn::partition::Partition;
use crate::learn::query::{Owner, QueryId};
use crate::learn::table::{HistoryTable, NewQuery};
use crate::learn::{Erase, HistoryConfig, HistoryScope};

/// Computes all tables again from the stored queries, and compares them with the current tables.
#[track_caller]
pub(super) fn audit(table: &HistoryTable) {
    let stats = table.stats();
    assert_eq!(table.queries.iter().count(), stats.queries);
    assert_eq!(table.partitions.values().map(Partition::len).sum::<usize>(), stats.queries);
    assert!(table.partitions.values().all(|partition| partition.len() > 0));
    for partition in table.partitions.values() {
        assert_eq!(partition.query_ids.count(), partition.len());
        assert_eq!(partition.tools.count(), partition.names.len());
        for (word, used) in &partition.words {
            let mut with: Vec<QueryId> = partition.query_ids.iter().collect();
            with.retain(|query_id| table.queries.get(*query_id).unwrap().words.contains(word));
            let mut known = used.query_ids.clone();
            known.sort_unstable();
            assert_eq!(known, with);
            for (tool, weight) in &used.tools {
                let counted =
                    with.iter().map(|at| table.queries.get(*at).unwrap().weight_of(*tool));
                assert!((counted.sum::<f32>() - weight).abs() < 0.05);
            }
        }
        for tool in partition.tools.iter() {
            let queries = partition
                .query_ids
                .iter()
                .map(|query_id| (query_id, table.queries.get(query_id).unwrap()));
            let with: Vec<_> = queries.filter(|(_, query)| query.weight_of(tool) > 0.0).collect();
            let counted: f32 = with.iter().map(|(_, query)| query.weight_of(tool)).sum();
            assert!(!with.is_empty() && (counted - table.weights[tool as usize]).abs() < 0.05);
            let used = table.tools.get(tool).unwrap();
            assert_eq!(used.query_ids.len(), with.len());
            let Some(rows) = &table.rows else { continue };
            for (at, sum) in used.sum.iter().enumerate() {
                let counted: f32 = with
                    .iter()
                    .filter_map(|(query_id, query)| {
                        Some(rows.vector(*query_id)?[at] * query.weight_of(tool))
                    })
                    .sum();
                assert!((counted - sum).abs() < 0.05);
            }
        }
    }
    assert_eq!(
        table.partitions.values().map(|partition| partition.names.len()).sum::<usize>(),
        stats.tools
    );
}

#[derive(Clone, Debug)]
enum Step {
    ToolCalls { owner: u8, query: u8, tool: u8, times: u32, has_vector: bool },
    Tool(u8),
    Owner(u8),
    Tenant(u8),
    StoredVector(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (0..4_u8, 0..12_u8, 0..6_u8, 1..5_u32, any::<bool>()).prop_map(
            |(owner, query, tool, times, has_vector)| Step::ToolCalls {
                owner, query, tool, times, has_vector
            }
        ),
        1 => (0..6_u8).prop_map(Step::Tool),
        1 => (0..4_u8).prop_map(Step::Owner),
        1 => (0..2_u8).prop_map(Step::Tenant),
        2 => (0..40_u8).prop_map(Step::StoredVector),
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
    fn all_tables_agree_after_any_operations(
        steps in prop::collection::vec(step(), 0..120),
        is_shared in any::<bool>(),
    ) {
        let scope = if is_shared { HistoryScope::Tenant } else { HistoryScope::Subject };
        let mut table = HistoryTable::new(HistoryConfig::new().scope(scope).max_queries(20, 12).max_queries_per_tool(4));
        table.set_dimensions(Some(5));
        for step in steps {
            match step {
                Step::ToolCalls { owner: who, query, tool, times, has_vector } => {
                    let new_query = NewQuery {
                        owner: Owner::of(&owner(who), HistoryScope::Subject),
                        key: u128::from(who) << 64 | u128::from(query),
                        text: Some("text"),
                        words: vec![u64::from(query % 5), u64::from(10 + query % 3)],
                        vector: has_vector.then(|| vector(query)),
                        now: 1,
                    };
                    table.record(&new_query, &tool.to_string(), times);
                }
                Step::Tool(tool) => drop(table.erase(Erase::Tool(&tool.to_string()))),
                Step::Owner(who) => drop(table.erase(Erase::Principal(&owner(who)))),
                Step::Tenant(who) => drop(table.erase(Erase::Tenant(owner(who).tenant()))),
                Step::StoredVector(at) => {
                    if table.queries.get(at.into()).is_some() {
                        table.set_vector(at.into(), &vector(at));
                    }
                }
            }
            audit(&table);
        }
        table.erase(Erase::All);
        audit(&table);
        prop_assert!(table.partitions.is_empty() && table.stats().vectors == 0);
        prop_assert!(table.without_vector(None).is_none());
    }
}
