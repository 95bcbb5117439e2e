//! The word table that is part of the crate: a vector per word piece, summed up to that of a text (MGP §16.4).
//!
//! The rows were trained so that the sum points where a sentence encoder (all-MiniLM-L6-v2) points, on texts under MIT
//! or Apache-2.0 only; `training/MODEL_CARD.md` says how, from what, and how good it is.
//!
//! Applies to: both.

mod file;
mod wordpiece;

use std::fmt;
use std::sync::LazyLock;

use super::{EmbedError, Embedder};
use file::File;
use wordpiece::Enough;

static RAW: &[u8] = include_bytes!("../../../data/table.bin");
static FILE: LazyLock<File> =
    LazyLock::new(|| File::of(RAW).expect("the table is part of the crate, and its sum is tested"));

/// Pieces of a text that count. What a tool is for stands at its beginning.
const PIECES: usize = 160;
/// Bytes of a text that are looked at, should there be nothing but signs in them.
const TEXT: usize = 16 * 1024;

/// The embedder that needs nothing: no library, no download, a few microseconds a query.
///
/// ```
/// use mgp_toolindex::{Embedder, StaticTable};
///
/// let table = StaticTable::new();
/// let cosine = |a: &str, b: &str| -> Result<f32, mgp_toolindex::EmbedError> {
///     Ok(table.embed(a)?.iter().zip(table.embed(b)?).map(|(a, b)| a * b).sum())
/// };
/// let near = cosine("is it going to rain tomorrow?", "get_weather. Returns the forecast")?;
/// let far = cosine("is it going to rain tomorrow?", "merge_branch. Merges a pull request")?;
/// assert!(near > far + 0.2);
/// # Ok::<(), mgp_toolindex::EmbedError>(())
/// ```
#[derive(Clone, Copy)]
pub struct StaticTable {
    file: &'static File,
}

// === impl StaticTable ===

impl StaticTable {
    /// The table of this crate.
    #[must_use]
    pub fn new() -> Self {
        Self { file: &FILE }
    }
}

impl Default for StaticTable {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for StaticTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticTable").field("model", &self.file.name).finish_non_exhaustive()
    }
}

impl Embedder for StaticTable {
    fn model(&self) -> &str {
        self.file.name
    }

    fn dimensions(&self) -> usize {
        self.file.dimensions
    }

    /// Never fails. Of a long text its first 160 pieces count.
    fn embed(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        let mut sum = vec![0.0; self.file.dimensions];
        let mut left = PIECES;
        let text = &text[..text.floor_char_boundary(TEXT)];
        wordpiece::pieces(self.file, text, &mut |row| {
            self.file.add(row, &mut sum);
            left -= 1;
            if left == 0 { Enough::Yes } else { Enough::No }
        });
        let length = sum.iter().map(|x| x * x).sum::<f32>().sqrt();
        if length > f32::EPSILON {
            for x in &mut sum {
                *x /= length;
            }
        } else {
            sum.fill(0.0);
        }
        Ok(sum)
    }
}

#[cfg(test)]
mod tests;
