//! The sum of all rows of a table, kept along (MGP §16.4).
//!
//! Applies to: both.

/// The sum of rows. Sums of whole numbers lose nothing, so rows that come and go leave no trace.
#[derive(Clone, Debug)]
pub(super) struct Sum(Box<[i64]>);

/// What a number is multiplied with before it is rounded; a million tables of a million rows stay within 64 bits.
const FINE: f32 = 1_048_576.0;

impl Sum {
    pub(super) fn new(dimensions: usize) -> Self {
        Self(vec![0; dimensions].into())
    }

    pub(super) fn give(&mut self, row: &[i8], factor: f32) {
        self.0.iter_mut().zip(row).for_each(|(sum, byte)| *sum += fine(*byte, factor));
    }

    pub(super) fn take(&mut self, row: &[i8], factor: f32) {
        self.0.iter_mut().zip(row).for_each(|(sum, byte)| *sum -= fine(*byte, factor));
    }

    #[expect(clippy::cast_precision_loss, reason = "a mean needs no more digits")]
    pub(super) fn mean(&self, rows: usize) -> Vec<f32> {
        let scale = FINE * rows.max(1) as f32;
        self.0.iter().map(|sum| *sum as f32 / scale).collect()
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a number of a vector of length one is at most one"
)]
fn fine(byte: i8, factor: f32) -> i64 {
    (f32::from(byte) * factor * FINE).round() as i64
}
