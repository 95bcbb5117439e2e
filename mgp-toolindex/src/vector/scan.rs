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

const ALL: [u8; WORD] = {
    let mut all = [0; WORD];
    let mut at = 0_u8;
    while (at as usize) < WORD {
        all[at as usize] = at;
        at += 1;
    }
    all
};

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
    four: impl Fn([&[i8]; 4], &[i16]) -> [i32; 4],
) {
    let mut some = [0; WORD];
    let words = rows.bytes.chunks(rows.stride * WORD).zip(rows.factors.chunks(WORD));
    for (number, ((bytes, factors), present)) in words.zip(rows.present).enumerate() {
        let mask = rows
            .within
            .map_or(*present, |within| within.get(number).map_or(0, |within| within & present));
        let picked = match mask {
            0 => continue,
            u64::MAX => &ALL[..],
            mask => pick(mask, &mut some),
        };
        let first = rows.first + slot(number * WORD);
        for (asked, best) in asked.iter().zip(bests.iter_mut()) {
            for picked in picked.chunks(4) {
                let at = |nth: usize| usize::from(picked[nth.min(picked.len() - 1)]);
                let row = |nth: usize| &bytes[at(nth) * rows.stride..][..rows.stride];
                let products = four([row(0), row(1), row(2), row(3)], &asked.coarse);
                for (at, product) in picked.iter().zip(products) {
                    let score = to_f32(product) * factors[usize::from(*at)];
                    if score > best.floor() {
                        best.push(score, first + Slot::from(*at));
                    }
                }
            }
        }
    }
}

/// The numbers of the bits that are set.
fn pick(mut mask: u64, some: &mut [u8; WORD]) -> &[u8] {
    let mut many = 0;
    while mask != 0 {
        some[many] = u8::try_from(mask.trailing_zeros()).unwrap_or(0);
        mask &= mask - 1;
        many += 1;
    }
    &some[..many]
}

#[expect(clippy::cast_possible_truncation, reason = "a chunk has far fewer rows")]
fn slot(at: usize) -> Slot {
    at as Slot
}

#[expect(clippy::cast_precision_loss, reason = "part of what the slack of a question covers")]
fn to_f32(product: i32) -> f32 {
    product as f32
}
