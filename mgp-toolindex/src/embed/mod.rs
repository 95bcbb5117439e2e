//! Embedders: models that give texts of similar meaning similar vectors (MGP §16.4).

#[cfg(feature = "fastembed")]
mod sentence;
#[cfg(feature = "static-table")]
mod table;

use std::fmt;

#[cfg(feature = "fastembed")]
pub use sentence::{ModelError, Sentences, SentencesConfig};
#[cfg(feature = "static-table")]
pub use table::StaticTable;

#[cfg(all(feature = "static-table", feature = "lexicon"))]
pub(crate) use table::has_english;

/// Returns `false` for every word, because the crate is built without the word table.
#[cfg(all(not(feature = "static-table"), feature = "lexicon"))]
pub(crate) fn has_english(_: &str) -> bool {
    false
}

/// A model that computes vectors of texts.
///
/// The index uses the same embedder for tools and queries, because it never compares vectors of different embedders.
///
/// ```
/// use std::sync::Arc;
///
/// use mgp_toolindex::{EmbedError, Embedder, ToolIndex};
///
/// /// Counts letters; a real model is a library or a service.
/// #[derive(Debug)]
/// struct Letters;
///
/// impl Embedder for Letters {
///     fn model(&self) -> &str {
///         "letters-1"
///     }
///
///     fn dimensions(&self) -> usize {
///         26
///     }
///
///     fn embed(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
///         let mut vector = vec![0.0_f32; 26];
///         let letters = text.bytes().map(|byte| byte.to_ascii_lowercase());
///         letters.filter(u8::is_ascii_lowercase).for_each(|byte| vector[usize::from(byte - b'a')] += 1.0);
///         let length = vector.iter().map(|one| one * one).sum::<f32>().sqrt();
///         if length > 0.0 {
///             vector.iter_mut().for_each(|one| *one /= length);
///         }
///         Ok(vector)
///     }
/// }
///
/// let index = ToolIndex::builder().embedder(Arc::new(Letters)).build();
/// # drop(index);
/// ```
pub trait Embedder: Send + Sync + fmt::Debug {
    /// Returns the name and version of the model; vectors are stored under this name.
    fn model(&self) -> &str;

    /// Returns the number of elements of each vector.
    fn dimensions(&self) -> usize;

    /// Computes the vector of a text. The vector has length one, or is all zero if the model knows nothing of the text.
    ///
    /// # Errors
    /// Returns [`EmbedError`] if the model fails; the index then searches by words only, and the search result reports
    /// this.
    fn embed(&self, text: &str) -> Result<Vec<f32>, EmbedError>;

    /// Returns how expensive it is to compute a vector.
    fn cost(&self) -> Cost {
        Cost::Small
    }
}

/// The cost of computing a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cost {
    /// Some microseconds: the index computes the vector of a tool while it adds the tool.
    Small,
    /// Some milliseconds: the index computes vectors in the background. Until the vector of a tool is ready, searches
    /// find the tool by its words and by its previous vector of the same model.
    Large,
}

/// The reason why no vector was computed for a text.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// The model, or the library that runs it, is missing or unsuitable.
    #[error("the model `{model}` cannot be used: {reason}")]
    Unavailable {
        /// The name of the model that cannot be used.
        model: String,
        /// The reason why the model cannot be used, and the remedy.
        reason: String,
    },
    /// The model ran on a text and failed.
    #[error("the model `{model}` failed: {reason}")]
    Failed {
        /// The name of the model that failed.
        model: String,
        /// The message of the model about the failure.
        reason: String,
    },
}
