//! Numbers that are given, and given again once they are free (MGP §16.4).
//!
//! Applies to: both.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Gives numbers, always the smallest that is free.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    free: BinaryHeap<Reverse<u32>>,
    next: u32,
}

impl Numbers {
    pub(super) fn take(&mut self) -> u32 {
        self.free.pop().map_or_else(
            || {
                self.next += 1;
                self.next - 1
            },
            |Reverse(number)| number,
        )
    }

    pub(super) fn give_back(&mut self, numbers: impl IntoIterator<Item = u32>) {
        self.free.extend(numbers.into_iter().map(Reverse));
    }
}
