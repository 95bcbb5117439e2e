//! One pass over the rows for several questions at once.
//!
//! Rows are taken 64 at a time, which stay in the nearest cache while question after question
//! meets them. Which of the 64 count is one word of bits, so a filter costs nothing where it lets
//! much through, and where it lets little through the rest is stepped over a word at a time: that
//! is the walk along a list of ids, without the list.
//!
//! Applies to: both.

use super::best::Best;
use super::number::Asked;
use crate::catalog::Slot;

/// Rows of one word.
pub(super) const WORD: usize = 64;

/// How many rows a kernel takes at once.
const FOUR: usize = 4;

/// Rows that lie one after the other.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    /// Their bytes, `stride` for each.
    pub(super) bytes: &'a [i8],
    pub(super) stride: usize,
    pub(super) factors: &'a [f32],
    /// The slot of the first.
    pub(super) first: Slot,
    /// Which of them there are, a bit each.
    pub(super) present: &'a [u64],
    /// Which of them are asked for; none: all. Those beyond its end are not.
    pub(super) within: Option<&'a [u64]>,
}

/// Offers all rows to all questions; `four` multiplies four rows with a question.
#[inline(always)]
#[expect(clippy::inline_always, reason = "takes on the instructions of the function it stands in")]
pub(super) fn scan(
    rows: Rows<'_>,
    asked: &[Asked<'_>],
    bests: &mut [Best],
    four: impl Fn([&[i8]; FOUR], &[i16]) -> [i32; FOUR],
) {
    let stride = rows.stride;
    let mut picked = [0; WORD];
    let words = rows.bytes.chunks(stride * WORD).zip(rows.factors.chunks(WORD));
    for (number, ((bytes, factors), present)) in words.zip(rows.present).enumerate() {
        let mask = rows
            .within
            .map_or(*present, |within| within.get(number).map_or(0, |within| within & present));
        if mask == 0 {
            continue;
        }
        let first = rows.first + to_slot(number * WORD);
        let picked = if mask == u64::MAX { &[] } else { pick(mask, &mut picked) };
        for (asked, best) in asked.iter().zip(bests.iter_mut()) {
            if mask == u64::MAX {
                let blocks = bytes.chunks_exact(FOUR * stride).zip(factors.as_chunks::<FOUR>().0);
                for (at, (block, factors)) in (first..).step_by(FOUR).zip(blocks) {
                    let (a, block) = block.split_at(stride);
                    let (b, block) = block.split_at(stride);
                    let (c, d) = block.split_at(stride);
                    let products = four([a, b, c, d], &asked.coarse);
                    offer(best, products, *factors, [at, at + 1, at + 2, at + 3]);
                }
                continue;
            }
            for picked in picked.chunks(FOUR) {
                // Where fewer are left the last one stands in, with a score that is no number and so never good.
                let at = |nth: usize| usize::from(picked[nth.min(picked.len() - 1)]);
                let row = |nth: usize| &bytes[at(nth) * stride..][..stride];
                let products = four([row(0), row(1), row(2), row(3)], &asked.coarse);
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

/// Offers four rows; most of the time none of them is good enough, and one branch says so.
#[inline(always)]
#[expect(clippy::inline_always, reason = "takes on the instructions of the function it stands in")]
fn offer(best: &mut Best, products: [i32; FOUR], factors: [f32; FOUR], slots: [Slot; FOUR]) {
    let mut scores = [0.0; FOUR];
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

/// The numbers of the bits that are set.
fn pick(mut mask: u64, picked: &mut [u8; WORD]) -> &[u8] {
    let mut many = 0;
    while mask != 0 {
        picked[many] = u8::try_from(mask.trailing_zeros()).unwrap_or(0);
        mask &= mask - 1;
        many += 1;
    }
    &picked[..many]
}

#[expect(clippy::cast_possible_truncation, reason = "a chunk has far fewer rows")]
fn to_slot(at: usize) -> Slot {
    at as Slot
}

#[expect(clippy::cast_precision_loss, reason = "part of what the slack of a question covers")]
fn to_f32(product: i32) -> f32 {
    product as f32
}
