//! Lists tools for an empty query, sorted by category and then by name (MGP §16.5).

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::view::Search;
use crate::catalog::{Record, Slot};

/// Returns the first of the wanted tools in the order of category, name and server, up to the limit of the search.
pub(super) fn browse(search: &Search<'_>, is_wanted: &dyn Fn(Slot, &Record) -> bool) -> Vec<Slot> {
    // The top of the heap is the last of the kept tools in this order, so that a tool that comes before it can replace
    // it.
    let mut first: BinaryHeap<Item<'_>> = BinaryHeap::with_capacity(search.limit + 1);
    for (slot, record) in search.view.catalog.records() {
        if !search.can_find(slot) || !is_wanted(slot, record) {
            continue;
        }
        let item = Item { slot, record };
        if first.len() < search.limit {
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
