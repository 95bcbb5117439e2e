//! Scans all rows once for several queries at the same time.
//!
//! Rows are processed 64 at a time, so that they stay in the L1 cache while each query is compared with them. The
//! filter bits of these 64 rows are one word. A word whose bits are all set costs nothing extra, and a word without a
//! set bit is skipped.

use super::quantise::QuantisedQuery;
use super::top_rows::TopRows;
use crate::catalog::Slot;

/// The number of rows in one word of filter bits.
pub(super) const WORD_BITS: usize = 64;

/// The number of rows that one call of `four` multiplies with a query.
const BLOCK: usize = 4;

/// A range of consecutive rows.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    /// The values of the rows, `stride` bytes for each.
    pub(super) bytes: &'a [i8],
    pub(super) stride: usize,
    pub(super) factors: &'a [f32],
    /// The slot of the range's first row.
    pub(super) first: Slot,
    /// The rows that exist, one bit each.
    pub(super) present: &'a [u64],
    /// The rows that pass the filter, one bit each; `None` if all rows pass. Rows beyond the end of the slice do not
    /// pass.
    pub(super) within: Option<&'a [u64]>,
}

/// For each query, computes the score of each existing row that passes the filter, and offers it to the query's list of
/// best rows. `four` multiplies four rows with a query.
#[inline(always)]
#[expect(clippy::inline_always, reason = "compiled with the instructions of its caller")]
pub(super) fn scan(
    rows: Rows<'_>,
    queries: &[QuantisedQuery<'_>],
    bests: &mut [TopRows],
    four: impl Fn([&[i8]; BLOCK], &[i16]) -> [i32; BLOCK],
) {
    let stride = rows.stride;
    let mut picked = [0; WORD_BITS];
    let words = rows.bytes.chunks(stride * WORD_BITS).zip(rows.factors.chunks(WORD_BITS));
    for (number, ((bytes, factors), present)) in words.zip(rows.present).enumerate() {
        let mask = rows
            .within
            .map_or(*present, |within| within.get(number).map_or(0, |within| within & present));
        if mask == 0 {
            continue;
        }
        let first = rows.first + to_slot(number * WORD_BITS);
        let picked = if mask == u64::MAX { &[] } else { pick(mask, &mut picked) };
        for (query, best) in queries.iter().zip(bests.iter_mut()) {
            if mask == u64::MAX {
                let blocks = bytes.chunks_exact(BLOCK * stride).zip(factors.as_chunks::<BLOCK>().0);
                for (at, (block, factors)) in (first..).step_by(BLOCK).zip(blocks) {
                    let (a, block) = block.split_at(stride);
                    let (b, block) = block.split_at(stride);
                    let (c, d) = block.split_at(stride);
                    let products = four([a, b, c, d], &query.coarse);
                    offer(best, products, *factors, [at, at + 1, at + 2, at + 3]);
                }
                continue;
            }
            for picked in picked.chunks(BLOCK) {
                // Fill an incomplete block with copies of its last row. The copies have the factor NaN, so their scores
                // are never among the best.
                let at = |nth: usize| usize::from(picked[nth.min(picked.len() - 1)]);
                let row = |nth: usize| &bytes[at(nth) * stride..][..stride];
                let products = four([row(0), row(1), row(2), row(3)], &query.coarse);
                let factor =
                    |nth: usize| if nth < picked.len() { factors[at(nth)] } else { f32::NAN };
                let slot = |nth: usize| first + to_slot(at(nth));
                offer(
                    best,
                    products,
                    [factor(0), factor(1), factor(2), factor(3)],
                    [slot(0), slot(1), slot(2), slot(3)],
                );
            }
        }
    }
}

/// Adds each of four rows to the list of best rows if its score is high enough. Usually none of them is added, and a
/// single branch skips all four.
#[inline(always)]
#[expect(clippy::inline_always, reason = "compiled with the instructions of its caller")]
fn offer(best: &mut TopRows, products: [i32; BLOCK], factors: [f32; BLOCK], slots: [Slot; BLOCK]) {
    let mut scores = [0.0; BLOCK];
    let mut is_good = false;
    for ((score, product), factor) in scores.iter_mut().zip(products).zip(factors) {
        *score = to_f32(product) * factor;
        is_good |= *score > best.floor();
    }
    if is_good {
        for (score, slot) in scores.into_iter().zip(slots) {
            best.offer(score, slot);
        }
    }
}

/// Writes the indices of the set bits of a mask into the buffer `picked`, and returns the written part.
fn pick(mut mask: u64, picked: &mut [u8; WORD_BITS]) -> &[u8] {
    let mut count = 0;
    while mask != 0 {
        picked[count] = u8::try_from(mask.trailing_zeros()).unwrap_or(0);
        mask &= mask - 1;
        count += 1;
    }
    &picked[..count]
}

#[expect(clippy::cast_possible_truncation, reason = "a chunk has far fewer rows")]
fn to_slot(at: usize) -> Slot {
    at as Slot
}

#[expect(clippy::cast_precision_loss, reason = "the slack of a query covers the rounding")]
fn to_f32(product: i32) -> f32 {
    product as f32
}
