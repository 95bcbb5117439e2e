//! The running sum of all rows of a table (MGP §16.4).

/// The sum of rows. It consists of integers, so adding and later removing a row leaves no rounding error.
#[derive(Clone, Debug)]
pub(super) struct RowSum(Box<[i64]>);

/// The factor that scales values before they are rounded; 64 bits are enough for the sum of any realistic number of
/// rows.
const SCALE: f32 = 1_048_576.0;

impl RowSum {
    pub(super) fn new(dimensions: usize) -> Self {
        Self(vec![0; dimensions].into())
    }

    pub(super) fn add(&mut self, row: &[i8], factor: f32) {
        self.0.iter_mut().zip(row).for_each(|(sum, byte)| *sum += scaled(*byte, factor));
    }

    pub(super) fn subtract(&mut self, row: &[i8], factor: f32) {
        self.0.iter_mut().zip(row).for_each(|(sum, byte)| *sum -= scaled(*byte, factor));
    }

    #[expect(clippy::cast_precision_loss, reason = "a mean needs no more digits")]
    pub(super) fn mean(&self, rows: usize) -> Vec<f32> {
        let scale = SCALE * rows.max(1) as f32;
        self.0.iter().map(|sum| *sum as f32 / scale).collect()
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a number of a vector of length one is at most one"
)]
fn scaled(byte: i8, factor: f32) -> i64 {
    (f32::from(byte) * factor * SCALE).round() as i64
}
