//! The rows of an index, by slot.
//!
//! Applies to: both.

use std::fmt;
use std::sync::Arc;

use super::best::Best;
use super::kernel::Kernel;
use super::number::{self, Asked};
use super::scan::{Rows, WORD};
use super::sum::Sum;
use crate::catalog::{Bitmap, Slot};

/// Rows of a chunk.
///
/// A change copies the chunk when somebody still searches in it, and no other.
const CHUNK: usize = 1024;

/// What the length of a row is a multiple of, in bytes: the widest load of a kernel.
const ALIGN: usize = 32;

/// Vectors by slot; a copy shares its rows until one of both changes.
#[derive(Clone)]
pub(crate) struct VectorTable {
    dimensions: usize,
    stride: usize,
    rows: usize,
    chunks: Vec<Option<Arc<Chunk>>>,
    /// All rows added up, kept along so that their mean is known at any time.
    sum: Sum,
}

#[derive(Clone)]
struct Chunk {
    bytes: Box<[i8]>,
    factors: Box<[f32]>,
    present: [u64; CHUNK / WORD],
}

// === impl VectorTable ===

impl VectorTable {
    /// No rows yet.
    pub(crate) fn new(dimensions: usize) -> Self {
        let stride = dimensions.max(1).next_multiple_of(ALIGN);
        Self { dimensions, stride, rows: 0, chunks: Vec::new(), sum: Sum::new(dimensions) }
    }

    /// How many numbers a vector has.
    pub(crate) fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// Keeps the direction of a vector.
    ///
    /// One without a direction (zero, not finite, of another length) leaves the slot without a row.
    pub(crate) fn set(&mut self, slot: Slot, vector: &[f32]) {
        let mut row = vec![0; self.dimensions];
        if vector.len() == self.dimensions && number::write(vector, &mut row).is_some() {
            self.restore(slot, &row);
        } else {
            self.clear(slot);
        }
    }

    /// Keeps a row as [`row`](Self::row) gave it; one that cannot be one leaves the slot without a row.
    pub(crate) fn restore(&mut self, slot: Slot, row: &[i8]) {
        let factor = if row.len() == self.dimensions { number::factor(row) } else { None };
        let Some(factor) = factor else { return self.clear(slot) };
        let (chunk, at) = place(slot);
        if self.chunks.len() <= chunk {
            self.chunks.resize(chunk + 1, None);
        }
        let stride = self.stride;
        let chunk = self.chunks[chunk].get_or_insert_with(|| Arc::new(Chunk::new(stride)));
        let chunk = Arc::make_mut(chunk);
        if chunk.has(at) {
            self.sum.take(&chunk.bytes[at * stride..][..row.len()], chunk.factors[at]);
        } else {
            self.rows += 1;
        }
        self.sum.give(row, factor);
        chunk.bytes[at * stride..][..row.len()].copy_from_slice(row);
        chunk.factors[at] = factor;
        chunk.present[at / WORD] |= 1 << (at % WORD);
    }

    /// Leaves a slot without a row.
    pub(crate) fn clear(&mut self, slot: Slot) {
        let (chunk, at) = place(slot);
        let Some(kept) = self.chunks.get_mut(chunk) else { return };
        let Some(chunk) = kept.as_mut().filter(|chunk| chunk.has(at)) else { return };
        let chunk = Arc::make_mut(chunk);
        chunk.present[at / WORD] &= !(1 << (at % WORD));
        self.sum.take(&chunk.bytes[at * self.stride..][..self.dimensions], chunk.factors[at]);
        self.rows -= 1;
        if chunk.present.iter().all(|word| *word == 0) {
            *kept = None;
        }
    }

    /// The bytes of a row; its direction is all that they say.
    pub(crate) fn row(&self, slot: Slot) -> Option<&[i8]> {
        self.row_and_factor(slot).map(|(row, _)| row)
    }

    /// The vector of length one that a row stands for.
    pub(crate) fn vector(&self, slot: Slot) -> Option<Vec<f32>> {
        let (row, factor) = self.row_and_factor(slot)?;
        Some(row.iter().map(|byte| f32::from(*byte) * factor).collect())
    }

    /// The rows nearest to each question, the nearest first and of equal ones the lower slot, with their cosine.
    ///
    /// A question without a direction finds nothing.
    pub(crate) fn top(
        &self,
        queries: &[&[f32]],
        k: usize,
        within: Option<&Bitmap>,
    ) -> Vec<Vec<(Slot, f32)>> {
        self.top_with(Kernel::best(), queries, k, within)
    }

    /// The cosine of a question and a row; none where either is missing.
    pub(crate) fn cosine(&self, query: &[f32], slot: Slot) -> Option<f32> {
        let unit = self.unit(query)?;
        let (row, factor) = self.row_and_factor(slot)?;
        Some(number::cosine(query, unit, row, factor))
    }

    /// The mean of all vectors, and how many they are.
    pub(crate) fn mean(&self) -> (Vec<f32>, usize) {
        (self.sum.mean(self.rows), self.rows)
    }

    /// The products of a row with each of these vectors, and whether there is such a row.
    ///
    /// `row` is room for the row, the same for every call.
    pub(crate) fn products(
        &self,
        vectors: &[&[f32]],
        slot: Slot,
        row: &mut Vec<f32>,
        out: &mut [f32],
    ) -> bool {
        let Some((bytes, factor)) = self.row_and_factor(slot) else { return false };
        row.clear();
        row.extend(bytes.iter().map(|byte| f32::from(*byte)));
        vectors.iter().zip(out).for_each(|(vector, out)| {
            *out = number::product(vector, row) * factor;
        });
        true
    }

    pub(super) fn top_with(
        &self,
        kernel: Kernel,
        queries: &[&[f32]],
        k: usize,
        within: Option<&Bitmap>,
    ) -> Vec<Vec<(Slot, f32)>> {
        let mut found = vec![Vec::new(); queries.len()];
        let places: Vec<_> =
            (0..queries.len()).filter(|at| k > 0 && self.unit(queries[*at]).is_some()).collect();
        let asked: Vec<_> =
            places.iter().filter_map(|at| Asked::new(queries[*at], self.stride)).collect();
        let mut bests: Vec<_> = asked.iter().map(|_| Best::new(k, self.rows)).collect();
        if !asked.is_empty() {
            for rows in self.chunks(within.map(Bitmap::words)) {
                kernel.scan(rows, &asked, &mut bests);
            }
        }
        for ((at, asked), best) in places.iter().zip(&asked).zip(bests) {
            found[*at] = best.finish(asked.slack, |slot| {
                self.row_and_factor(slot).map_or(-1.0, |(row, factor)| {
                    number::cosine(asked.exact, asked.unit, row, factor)
                })
            });
        }
        found
    }

    fn unit(&self, query: &[f32]) -> Option<f32> {
        if query.len() == self.dimensions { number::unit(query) } else { None }
    }

    fn chunks<'a>(&'a self, within: Option<&'a [u64]>) -> impl Iterator<Item = Rows<'a>> {
        self.chunks.iter().enumerate().filter_map(move |(number, chunk)| {
            let chunk = chunk.as_ref()?;
            Some(Rows {
                bytes: &chunk.bytes,
                stride: self.stride,
                factors: &chunk.factors,
                first: Slot::try_from(number * CHUNK).ok()?,
                present: &chunk.present,
                within: within.map(|words| words.get(number * CHUNK / WORD..).unwrap_or_default()),
            })
        })
    }

    fn row_and_factor(&self, slot: Slot) -> Option<(&[i8], f32)> {
        let (chunk, at) = place(slot);
        let chunk = self.chunks.get(chunk)?.as_ref().filter(|chunk| chunk.has(at))?;
        Some((&chunk.bytes[at * self.stride..][..self.dimensions], chunk.factors[at]))
    }
}

impl fmt::Debug for VectorTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dimensions, rows, .. } = self;
        f.debug_struct("VectorTable")
            .field("dimensions", dimensions)
            .field("rows", rows)
            .finish_non_exhaustive()
    }
}

// === impl Chunk ===

impl Chunk {
    fn new(stride: usize) -> Self {
        Self {
            bytes: vec![0; CHUNK * stride].into(),
            factors: vec![0.0; CHUNK].into(),
            present: [0; CHUNK / WORD],
        }
    }

    fn has(&self, at: usize) -> bool {
        self.present[at / WORD] >> (at % WORD) & 1 == 1
    }
}

/// The chunk of a slot, and where it is in there.
fn place(slot: Slot) -> (usize, usize) {
    let slot = slot as usize;
    (slot / CHUNK, slot % CHUNK)
}
