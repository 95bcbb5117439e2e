//! The best of many rows, in bounded room.
//!
//! Applies to: both.

use std::cmp::Ordering;

use crate::catalog::Slot;

/// How many rows are kept beyond those asked for, because the scan rounds.
const SPARE: usize = 16;

/// A row and its score.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scored {
    pub(super) score: f32,
    pub(super) slot: Slot,
}

impl Scored {
    /// Better ones first, and of equal ones the lower slot.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "sorting compares by reference")]
    fn before(&self, other: &Self) -> Ordering {
        other.score.total_cmp(&self.score).then(self.slot.cmp(&other.slot))
    }
}

/// Keeps the best of the rows it is offered, in the order of their slots.
pub(super) struct Best {
    asked: usize,
    keep: usize,
    /// What a row has to be better than.
    floor: f32,
    found: Vec<Scored>,
}

impl Best {
    pub(super) fn new(asked: usize, rows: usize) -> Self {
        let keep = asked.saturating_add(asked / 8).saturating_add(SPARE).min(rows);
        // Twice the room: a row costs a push, and only every so many rows are sorted out.
        let found = Vec::with_capacity(keep.saturating_mul(2));
        Self { asked, keep, floor: f32::NEG_INFINITY, found }
    }

    #[inline]
    pub(super) fn floor(&self) -> f32 {
        self.floor
    }

    /// Takes a row if it is better than the floor.
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

    /// The best ones in order, scored once more; all that the scan may have confused are looked at.
    pub(super) fn finish(
        mut self,
        slack: f32,
        mut exact: impl FnMut(Slot) -> f32,
    ) -> Vec<(Slot, f32)> {
        self.sort_out();
        self.found.sort_unstable_by(Scored::before);
        if let Some(last) = self.found.get(self.asked.wrapping_sub(1)) {
            let enough = last.score - slack;
            let many = self.found.partition_point(|scored| scored.score >= enough);
            self.found.truncate(many);
        }
        for scored in &mut self.found {
            scored.score = exact(scored.slot);
        }
        self.found.sort_unstable_by(Scored::before);
        self.found.truncate(self.asked);
        self.found.into_iter().map(|scored| (scored.slot, scored.score)).collect()
    }
}
