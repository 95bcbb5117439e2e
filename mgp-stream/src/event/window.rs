//! The last entries of a numbered sequence, up to a maximum number and a maximum total size.

use std::collections::VecDeque;

/// The last entries of a sequence. The entries have consecutive numbers; the oldest are dropped when there are too many
/// or they are too large.
pub(super) struct Window<T> {
    /// The entries with their sizes in bytes, oldest first.
    entries: VecDeque<(T, u32)>,
    bytes: usize,
    max_entries: usize,
    max_bytes: usize,
    last: u64,
}

impl<T> Window<T> {
    /// Creates an empty window; the number of the first entry is one more than `last`.
    pub(super) fn new(last: u64, max_entries: usize, max_bytes: usize) -> Self {
        Self { entries: VecDeque::new(), bytes: 0, max_entries, max_bytes, last }
    }

    /// Returns the number that was assigned last.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Returns the number of the oldest entry, or of the next entry if there are none.
    pub(super) fn first(&self) -> u64 {
        self.last + 1 - self.entries.len() as u64
    }

    pub(super) fn push(&mut self, entry: T, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.entries.push_back((entry, bytes));
        self.bytes += bytes as usize;
        self.last += 1;
        while self.entries.len() > self.max_entries || self.bytes > self.max_bytes {
            self.drop_oldest();
        }
    }

    /// Drops the entries with numbers below `first`.
    pub(super) fn drop_before(&mut self, first: u64) {
        while self.first() < first && !self.entries.is_empty() {
            self.drop_oldest();
        }
    }

    /// Drops all entries, and frees their memory.
    pub(super) fn clear(&mut self) {
        (self.entries, self.bytes) = (VecDeque::new(), 0);
    }

    /// Returns the entries after a number, with their own numbers.
    pub(super) fn after(&self, number: u64) -> impl Iterator<Item = (u64, &T)> {
        // A caller chooses the number freely, so it can be larger than any number that was assigned.
        let from = number.min(self.last).saturating_add(1).max(self.first());
        let skip = usize::try_from(from - self.first()).unwrap_or(usize::MAX);
        let entries = self.entries.iter().skip(skip).map(|(entry, _)| entry);
        (from..).zip(entries)
    }

    fn drop_oldest(&mut self) {
        self.bytes -= self.entries.pop_front().map_or(0, |(_, bytes)| bytes as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_entries_are_dropped_and_the_others_keep_their_numbers() {
        let mut window = Window::new(7, 3, 10);
        let after = |window: &Window<char>, number: u64| {
            window.after(number).map(|(number, entry)| (number, *entry)).collect::<Vec<_>>()
        };
        assert_eq!((window.first(), window.last(), after(&window, 0)), (8, 7, vec![]));
        for entry in ['a', 'b', 'c', 'd'] {
            window.push(entry, 2);
        }
        assert_eq!((window.first(), window.last()), (9, 11), "three entries are kept");
        assert_eq!(after(&window, 0), [(9, 'b'), (10, 'c'), (11, 'd')]);
        assert_eq!(after(&window, 10), [(11, 'd')]);
        assert_eq!((after(&window, 11), after(&window, u64::MAX)), (vec![], vec![]));
        window.push('e', 7);
        assert_eq!(after(&window, 0), [(11, 'd'), (12, 'e')], "ten bytes are kept");
        window.drop_before(12);
        assert_eq!(after(&window, 0), [(12, 'e')]);
        window.clear();
        window.push('f', 10);
        assert_eq!((window.first(), after(&window, 0)), (13, vec![(13, 'f')]));
    }
}
