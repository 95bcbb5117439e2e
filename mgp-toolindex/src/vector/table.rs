//! A table of vectors, indexed by slot.

use std::sync::Arc;

use super::kernel::Kernel;
use super::quantise::{self, QuantisedQuery};
use super::row_sum::RowSum;
use super::scan::{Rows, WORD_BITS};
use super::top_rows::TopRows;
use crate::catalog::{Bitmap, Slot};

/// The number of rows in a chunk. A change copies only the chunk that it changes, and only if a search is still reading
/// that chunk.
const CHUNK_ROWS: usize = 1024;

/// The alignment of a row in bytes, which is the width of the widest load in a kernel.
const ALIGN: usize = 32;

/// Vectors, indexed by slot; clones share their rows until one of them changes.
#[derive(Clone)]
pub(crate) struct VectorTable {
    dimensions: usize,
    stride: usize,
    rows: usize,
    chunks: Vec<Option<Arc<Chunk>>>,
    sum: RowSum,
}

#[derive(Clone)]
struct Chunk {
    bytes: Box<[i8]>,
    factors: Box<[f32]>,
    present: [u64; CHUNK_ROWS / WORD_BITS],
}

impl VectorTable {
    pub(crate) fn new(dimensions: usize) -> Self {
        let stride = dimensions.max(1).next_multiple_of(ALIGN);
        Self { dimensions, stride, rows: 0, chunks: Vec::new(), sum: RowSum::new(dimensions) }
    }

    pub(crate) fn dimensions(&self) -> usize {
        self.dimensions
    }

    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// Stores the direction of a vector.
    ///
    /// A vector without a direction, i.e. that is zero, not finite or of another length, clears the slot.
    pub(crate) fn set(&mut self, slot: Slot, vector: &[f32]) {
        let mut row = vec![0; self.dimensions];
        if vector.len() == self.dimensions && quantise::write(vector, &mut row).is_some() {
            self.restore(slot, &row);
        } else {
            self.clear(slot);
        }
    }

    /// Stores a row that [`row`](Self::row) returned; an invalid row clears the slot.
    pub(crate) fn restore(&mut self, slot: Slot, row: &[i8]) {
        let factor = if row.len() == self.dimensions { quantise::factor(row) } else { None };
        let Some(factor) = factor else { return self.clear(slot) };
        let (chunk, at) = position(slot);
        if self.chunks.len() <= chunk {
            self.chunks.resize(chunk + 1, None);
        }
        let stride = self.stride;
        let chunk = self.chunks[chunk].get_or_insert_with(|| Arc::new(Chunk::new(stride)));
        let chunk = Arc::make_mut(chunk);
        if chunk.has(at) {
            self.sum.subtract(&chunk.bytes[at * stride..][..row.len()], chunk.factors[at]);
        } else {
            self.rows += 1;
        }
        self.sum.add(row, factor);
        chunk.bytes[at * stride..][..row.len()].copy_from_slice(row);
        chunk.factors[at] = factor;
        chunk.present[at / WORD_BITS] |= 1 << (at % WORD_BITS);
    }

    pub(crate) fn clear(&mut self, slot: Slot) {
        let (chunk, at) = position(slot);
        let Some(kept) = self.chunks.get_mut(chunk) else { return };
        let Some(chunk) = kept.as_mut().filter(|chunk| chunk.has(at)) else { return };
        let chunk = Arc::make_mut(chunk);
        chunk.present[at / WORD_BITS] &= !(1 << (at % WORD_BITS));
        self.sum.subtract(&chunk.bytes[at * self.stride..][..self.dimensions], chunk.factors[at]);
        self.rows -= 1;
        if chunk.present.iter().all(|word| *word == 0) {
            *kept = None;
        }
    }

    /// Returns the bytes of the row in a slot, which preserve the direction of the vector but not its length.
    pub(crate) fn row(&self, slot: Slot) -> Option<&[i8]> {
        self.row_and_factor(slot).map(|(row, _)| row)
    }

    /// Returns the vector of a row, scaled to length one.
    pub(crate) fn vector(&self, slot: Slot) -> Option<Vec<f32>> {
        let (row, factor) = self.row_and_factor(slot)?;
        Some(row.iter().map(|byte| f32::from(*byte) * factor).collect())
    }

    /// Returns the rows nearest to each query with their cosines, nearest first; rows with equal cosines are sorted by
    /// slot.
    ///
    /// Returns no rows for a query without a direction.
    pub(crate) fn top(
        &self,
        queries: &[&[f32]],
        k: usize,
        within: Option<&Bitmap>,
    ) -> Vec<Vec<(Slot, f32)>> {
        self.top_with(Kernel::best(), queries, k, within)
    }

    /// Returns the cosine of a query and a row; returns `None` if the slot has no row or the query has no direction.
    pub(crate) fn cosine(&self, query: &[f32], slot: Slot) -> Option<f32> {
        let unit = self.unit(query)?;
        let (row, factor) = self.row_and_factor(slot)?;
        Some(quantise::cosine(query, unit, row, factor))
    }

    /// Returns the mean of all vectors, and their number.
    pub(crate) fn mean(&self) -> (Vec<f32>, usize) {
        (self.sum.mean(self.rows), self.rows)
    }

    /// Returns the mean of the vectors in these slots, and their number.
    pub(crate) fn mean_of(&self, slots: impl Iterator<Item = Slot>) -> (Vec<f32>, usize) {
        let (mut sum, mut rows) = (RowSum::new(self.dimensions), 0);
        for (row, factor) in slots.filter_map(|slot| self.row_and_factor(slot)) {
            sum.add(row, factor);
            rows += 1;
        }
        (sum.mean(rows), rows)
    }

    /// Writes to `out` the dot products of the row in a slot with these vectors; returns `false` if the slot has no
    /// row.
    ///
    /// `row` is a buffer that the caller reuses between calls.
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
            *out = quantise::product(vector, row) * factor;
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
        let quantised: Vec<_> =
            places.iter().filter_map(|at| QuantisedQuery::new(queries[*at], self.stride)).collect();
        let mut bests: Vec<_> = quantised.iter().map(|_| TopRows::new(k, self.rows)).collect();
        if !quantised.is_empty() {
            for rows in self.chunks(within.map(Bitmap::words)) {
                kernel.scan(rows, &quantised, &mut bests);
            }
        }
        for ((at, query), best) in places.iter().zip(&quantised).zip(bests) {
            found[*at] = best.finish(query.slack, |slot| {
                self.row_and_factor(slot).map_or(-1.0, |(row, factor)| {
                    quantise::cosine(query.exact, query.unit, row, factor)
                })
            });
        }
        found
    }

    fn unit(&self, query: &[f32]) -> Option<f32> {
        if query.len() == self.dimensions { quantise::unit(query) } else { None }
    }

    fn chunks<'a>(&'a self, within: Option<&'a [u64]>) -> impl Iterator<Item = Rows<'a>> {
        self.chunks.iter().enumerate().filter_map(move |(number, chunk)| {
            let chunk = chunk.as_ref()?;
            Some(Rows {
                bytes: &chunk.bytes,
                stride: self.stride,
                factors: &chunk.factors,
                first: Slot::try_from(number * CHUNK_ROWS).ok()?,
                present: &chunk.present,
                within: within
                    .map(|words| words.get(number * CHUNK_ROWS / WORD_BITS..).unwrap_or_default()),
            })
        })
    }

    fn row_and_factor(&self, slot: Slot) -> Option<(&[i8], f32)> {
        let (chunk, at) = position(slot);
        let chunk = self.chunks.get(chunk)?.as_ref().filter(|chunk| chunk.has(at))?;
        Some((&chunk.bytes[at * self.stride..][..self.dimensions], chunk.factors[at]))
    }
}

mgp_types::opaque_debug!(VectorTable { dimensions, rows });

impl Chunk {
    fn new(stride: usize) -> Self {
        Self {
            bytes: vec![0; CHUNK_ROWS * stride].into(),
            factors: vec![0.0; CHUNK_ROWS].into(),
            present: [0; CHUNK_ROWS / WORD_BITS],
        }
    }

    fn has(&self, at: usize) -> bool {
        self.present[at / WORD_BITS] >> (at % WORD_BITS) & 1 == 1
    }
}

/// Returns the chunk of a slot, and the slot's index in that chunk.
fn position(slot: Slot) -> (usize, usize) {
    let slot = slot as usize;
    (slot / CHUNK_ROWS, slot % CHUNK_ROWS)
}
