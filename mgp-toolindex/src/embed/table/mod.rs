//! The built-in word table: it has a vector for each word piece, and the vector of a text is the sum of the vectors of
//! its pieces (MGP §16.4).
//!
//! The rows were trained to approximate a sentence encoder (all-MiniLM-L6-v2), only with texts under the MIT or
//! Apache-2.0 license; `training/MODEL_CARD.md` describes the training, its texts and the quality.

mod file;
mod wordpiece;

use std::ops::ControlFlow;
use std::sync::LazyLock;

use super::{EmbedError, Embedder};
use file::File;

static RAW: &[u8] = include_bytes!("../../../data/table.bin");
static FILE: LazyLock<File> =
    LazyLock::new(|| File::of(RAW).expect("the table is part of the crate, and its sum is tested"));

/// The maximum number of pieces of a text that are used. The beginning of a definition describes its purpose, so later
/// pieces can be ignored.
const MAX_PIECES: usize = 160;
/// The maximum number of bytes that are read from a text, even if few of them form pieces.
const MAX_TEXT_BYTES: usize = 16 * 1024;

/// An embedder that needs no library and no download, and takes a few microseconds per query.
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

impl StaticTable {
    /// Returns the table of this crate.
    #[must_use]
    pub fn new() -> Self {
        Self { file: &FILE }
    }
}

/// Returns whether the table has a word, which must be in lower case. The table has 30,000 words, nearly all of them
/// English.
#[cfg(feature = "lexicon")]
pub(crate) fn has_english(word: &str) -> bool {
    FILE.find_word(word).is_some()
}

impl Default for StaticTable {
    fn default() -> Self {
        Self::new()
    }
}

mgp_types::opaque_debug!(StaticTable);

impl Embedder for StaticTable {
    fn model(&self) -> &str {
        self.file.name
    }

    fn dimensions(&self) -> usize {
        self.file.dimensions
    }

    /// Computes the vector from the first 160 pieces of the text; never returns an error.
    fn embed(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        let mut sum = vec![0.0; self.file.dimensions];
        let mut left = MAX_PIECES;
        let text = crate::text::truncate(text, MAX_TEXT_BYTES);
        let _ = wordpiece::pieces(self.file, text, &mut |row| {
            self.file.add(row, &mut sum);
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
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
