//! Converts vectors to integers: rows to one byte per dimension, queries to two bytes.
//!
//! A query is rounded 256 times more finely than a row, so that rounding rarely changes the order of rows. The maximum
//! error of the scan is known.

/// The greatest value in a row; -128 is not used, so that the negative of every row exists.
const ROW_MAX: f32 = 127.0;

/// The number of parallel sums. It is fixed, so that every processor adds in the same order.
const LANES: usize = 16;

/// A query, prepared for the scan.
pub(super) struct QuantisedQuery<'a> {
    pub(super) exact: &'a [f32],
    /// The factor that scales `exact` to length one.
    pub(super) unit: f32,
    /// The query as integers, padded with zeros to the stride of the rows.
    pub(super) coarse: Vec<i16>,
    /// The maximum error that rounding causes in the difference between two scores of the scan.
    pub(super) slack: f32,
}

impl<'a> QuantisedQuery<'a> {
    /// Prepares a query; returns `None` for a vector without a direction, e.g. of zeros.
    pub(super) fn new(exact: &'a [f32], stride: usize) -> Option<Self> {
        let unit = unit(exact)?;
        let max = exact.iter().fold(0.0_f32, |max, value| max.max(value.abs()));
        let range = f32::from(range(stride));
        let mut off = 0.0_f32;
        let mut coarse = vec![0; stride];
        for (coarse, value) in coarse.iter_mut().zip(exact) {
            let scaled = value / max * range;
            let whole = scaled.round();
            *coarse = to_i16(whole);
            off += (scaled - whole) * (scaled - whole);
        }
        // The error of a score is at most the length of the rounding error of the query, because a row has length one.
        // The errors of two rows can have opposite signs, hence the factor 2. The second term covers the rounding of
        // floats.
        let slack = 2.0 * off.sqrt() + range * 4.0e-6 / (unit * max);
        Some(Self { exact, unit, coarse, slack })
    }
}

/// Returns the maximum for the values of a scaled query at which the sum of its products with a row always fits into 32
/// bits.
fn range(stride: usize) -> i16 {
    let most = (1_usize << 31) / (128 * stride.max(1));
    i16::try_from(most.saturating_sub(1)).unwrap_or(i16::MAX)
}

/// Writes a vector to `row` as integers, and returns the factor that restores its length; returns `None` if the vector
/// has no direction.
pub(super) fn write(values: &[f32], row: &mut [i8]) -> Option<f32> {
    unit(values)?;
    let max = values.iter().fold(0.0_f32, |max, value| max.max(value.abs()));
    for (byte, value) in row.iter_mut().zip(values) {
        *byte = to_i8((value / max * ROW_MAX).round());
    }
    factor(row)
}

/// Returns the factor that scales a row to a vector of length one; returns `None` for a row of zeros.
pub(super) fn factor(row: &[i8]) -> Option<f32> {
    let squares: u64 = row.iter().map(|byte| u64::from(byte.unsigned_abs()).pow(2)).sum();
    (squares > 0).then(|| to_f32((to_f64(squares)).sqrt().recip()))
}

/// Returns the cosine of a query and a row, identical to the last bit on every processor.
pub(super) fn cosine(exact: &[f32], unit: f32, row: &[i8], factor: f32) -> f32 {
    let mut sums = [0.0_f32; LANES];
    let (values, last_values) = exact.as_chunks::<LANES>();
    let (bytes, last_bytes) = row[..exact.len()].as_chunks::<LANES>();
    for (values, bytes) in values.iter().zip(bytes) {
        for ((sum, value), byte) in sums.iter_mut().zip(values).zip(bytes) {
            *sum += value * unit * f32::from(*byte);
        }
    }
    for ((sum, value), byte) in sums.iter_mut().zip(last_values).zip(last_bytes) {
        *sum += value * unit * f32::from(*byte);
    }
    (sums.iter().sum::<f32>() * factor).clamp(-1.0, 1.0)
}

/// Returns the dot product of two vectors.
pub(super) fn product(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0_f32; LANES];
    let (ours, our_last) = a.as_chunks::<LANES>();
    let (theirs, their_last) = b.as_chunks::<LANES>();
    for (ours, theirs) in ours.iter().zip(theirs) {
        for ((sum, a), b) in sums.iter_mut().zip(ours).zip(theirs) {
            *sum += a * b;
        }
    }
    for ((sum, a), b) in sums.iter_mut().zip(our_last).zip(their_last) {
        *sum += a * b;
    }
    sums.iter().sum()
}

/// Returns the factor that scales a vector to length one; returns `None` if it is zero or not finite.
pub(super) fn unit(values: &[f32]) -> Option<f32> {
    let squares: f64 = values.iter().map(|value| f64::from(*value).powi(2)).sum();
    let unit = to_f32(squares.sqrt().recip());
    (unit.is_normal() && squares > 0.0).then_some(unit)
}

#[expect(clippy::cast_possible_truncation, reason = "rounded and within 127")]
fn to_i8(value: f32) -> i8 {
    value as i8
}

#[expect(clippy::cast_possible_truncation, reason = "rounded and within the range")]
fn to_i16(value: f32) -> i16 {
    value as i16
}

#[expect(clippy::cast_possible_truncation, reason = "a factor needs no more digits")]
fn to_f32(value: f64) -> f32 {
    value as f32
}

#[expect(clippy::cast_precision_loss, reason = "squares of bytes are far below 2^52")]
fn to_f64(value: u64) -> f64 {
    value as f64
}
