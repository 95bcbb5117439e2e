//! Keeps the few best of many tools by their scores (MGP §16.4).

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::catalog::Slot;

#[derive(Debug)]
pub(crate) struct TopTools {
    max: usize,
    /// A heap whose top is the worst of the kept tools.
    best: BinaryHeap<Reverse<Scored>>,
}

/// A scored tool. The greater of two tools is the better tool: it has the higher score or, if the scores are equal, the
/// lower slot.
#[derive(Clone, Copy, Debug)]
struct Scored {
    score: f32,
    slot: Slot,
}

impl TopTools {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, best: BinaryHeap::with_capacity(max.min(1024) + 1) }
    }

    /// Returns the score that a tool must exceed to be added: 0 while there is room, else a value just below the score
    /// of the worst kept tool. The value is lower than that score, because a tool with an equal score and a lower slot
    /// is better.
    pub(crate) fn threshold(&self) -> f32 {
        match self.best.peek() {
            Some(Reverse(worst)) if self.best.len() >= self.max => worst.score.next_down(),
            _ => 0.0,
        }
    }

    pub(crate) fn offer(&mut self, slot: Slot, score: f32) {
        let offered = Scored { score, slot };
        if self.best.len() < self.max {
            self.best.push(Reverse(offered));
        } else if let Some(mut worst) = self.best.peek_mut()
            && offered > worst.0
        {
            *worst = Reverse(offered);
        }
    }

    pub(crate) fn into_sorted(self) -> Vec<(Slot, f32)> {
        let sorted = self.best.into_sorted_vec();
        sorted.into_iter().map(|Reverse(Scored { score, slot })| (slot, score)).collect()
    }
}

impl Ord for Scored {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then_with(|| other.slot.cmp(&self.slot))
    }
}

impl PartialOrd for Scored {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scored {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Scored {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_best_and_of_equal_ones_the_smaller_number() {
        let mut top = TopTools::new(3);
        for (slot, score) in [(9, 1.0), (4, 2.0), (7, 1.0), (3, 1.0), (8, 0.5)] {
            if score > top.threshold() {
                top.offer(slot, score);
            }
        }
        assert_eq!(top.into_sorted(), [(4, 2.0), (3, 1.0), (7, 1.0)]);
        assert_eq!(TopTools::new(0).into_sorted(), []);
    }
}
