//! Lists tools for an empty query, sorted by category and then by name (MGP §16.5).

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::catalog::{Bitmap, Catalog, Record, Slot};

/// Returns the first `k` of the wanted tools in the order of category, name and server.
pub(super) fn browse(
    catalog: &Catalog,
    within: Option<&Bitmap>,
    k: usize,
    is_wanted: &dyn Fn(Slot, &Record) -> bool,
) -> Vec<Slot> {
    // The top of this heap is the last of the kept tools in this order, so that a tool before it can replace it.
    let mut first: BinaryHeap<Item<'_>> = BinaryHeap::with_capacity(k + 1);
    for (slot, record) in catalog.records() {
        if within.is_some_and(|within| !within.contains(slot)) || !is_wanted(slot, record) {
            continue;
        }
        let item = Item { slot, record };
        if first.len() < k {
            first.push(item);
        } else if first.peek().is_some_and(|last| item < *last) {
            first.pop();
            first.push(item);
        }
    }
    first.into_sorted_vec().into_iter().map(|item| item.slot).collect()
}

/// A tool, ordered by category, name and server.
struct Item<'a> {
    slot: Slot,
    record: &'a Record,
}

impl Item<'_> {
    fn key(&self) -> (Option<&str>, &str, &str) {
        let entry = &self.record.entry;
        let category = entry.categories.words.first().map(|category| &**category);
        (category, entry.name(), &entry.server.id)
    }
}

impl Ord for Item<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Item<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Item<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Item<'_> {}
