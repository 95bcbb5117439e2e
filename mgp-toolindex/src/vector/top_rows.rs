//! Keeps the best of many rows, with bounded memory.

use std::cmp::Ordering;

use crate::catalog::Slot;

/// The minimum number of rows that are kept in addition to the wanted number. The scores of the scan are rounded, so
/// one of these rows might be among the best.
const SPARE_ROWS: usize = 16;

#[derive(Clone, Copy, Debug)]
pub(super) struct Scored {
    pub(super) score: f32,
    pub(super) slot: Slot,
}

impl Scored {
    /// Compares two rows by score, the best first, and then by slot.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "sorting compares by reference")]
    fn before(&self, other: &Self) -> Ordering {
        other.score.total_cmp(&self.score).then(self.slot.cmp(&other.slot))
    }
}

/// The best of the rows that a scan offers.
pub(super) struct TopRows {
    k: usize,
    keep: usize,
    /// The score that a row must exceed to be added.
    floor: f32,
    found: Vec<Scored>,
}

impl TopRows {
    pub(super) fn new(k: usize, rows: usize) -> Self {
        let keep = k.saturating_add(k / 8).saturating_add(SPARE_ROWS).min(rows);
        // Reserve space for twice the rows: rows are appended without sorting until the list is full, so sorting is
        // rare.
        let found = Vec::with_capacity(keep.saturating_mul(2));
        Self { k, keep, floor: f32::NEG_INFINITY, found }
    }

    #[inline]
    pub(super) fn floor(&self) -> f32 {
        self.floor
    }

    #[inline]
    pub(super) fn offer(&mut self, score: f32, slot: Slot) {
        if score > self.floor {
            self.found.push(Scored { score, slot });
            if self.found.len() >= self.keep.saturating_mul(2) {
                self.sort_out();
            }
        }
    }

    #[inline(never)]
    fn sort_out(&mut self) {
        if self.found.len() > self.keep {
            let (_, last, _) = self.found.select_nth_unstable_by(self.keep - 1, Scored::before);
            self.floor = last.score;
            self.found.truncate(self.keep);
        }
    }

    /// Computes the exact scores of the best rows, and returns the rows in order; `slack` is the rounding error of the
    /// scan.
    pub(super) fn finish(
        mut self,
        slack: f32,
        mut exact: impl FnMut(Slot) -> f32,
    ) -> Vec<(Slot, f32)> {
        self.sort_out();
        self.found.sort_unstable_by(Scored::before);
        if let Some(last) = self.found.get(self.k.wrapping_sub(1)) {
            let enough = last.score - slack;
            let count = self.found.partition_point(|scored| scored.score >= enough);
            self.found.truncate(count);
        }
        for scored in &mut self.found {
            scored.score = exact(scored.slot);
        }
        self.found.sort_unstable_by(Scored::before);
        self.found.truncate(self.k);
        self.found.into_iter().map(|scored| (scored.slot, scored.score)).collect()
    }
}
