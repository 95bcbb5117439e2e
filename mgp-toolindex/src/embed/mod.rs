//! Embedders: texts of similar meaning get similar vectors (MGP §16.4).

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

/// Knows no word, because the crate is built without the table.
#[cfg(all(not(feature = "static-table"), feature = "lexicon"))]
pub(crate) fn has_english(_: &str) -> bool {
    false
}

/// A model that makes vectors of texts.
///
/// Tools and queries go through the same embedder; vectors of different embedders are never compared.
pub trait Embedder: Send + Sync + fmt::Debug {
    /// Returns the name and version of the model; vectors are stored under this name.
    fn model(&self) -> &str;

    /// Returns the length of a vector.
    fn dimensions(&self) -> usize;

    /// Makes the vector of a text: of length one, or all zero if the model knows nothing of the text.
    ///
    /// # Errors
    /// [`EmbedError`] if the model fails; the index then searches by words and reports that.
    fn embed(&self, text: &str) -> Result<Vec<f32>, EmbedError>;

    /// Returns how expensive it is to compute a vector.
    fn cost(&self) -> Cost {
        Cost::Small
    }
}

/// The cost of making a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cost {
    /// Microseconds: vectors are made while the tool is added.
    Small,
    /// Milliseconds: vectors are computed in the background. Until then, search uses words and older vectors of the
    /// same model.
    Large,
}

/// The reason why a text has no vector.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// The model, or the library that runs it, is missing or unsuitable.
    #[error("the model `{model}` cannot be used: {reason}")]
    Unavailable {
        /// The name of the model.
        model: String,
        /// The reason, and the remedy.
        reason: String,
    },
    /// The model ran and failed.
    #[error("the model `{model}` failed: {reason}")]
    Failed {
        /// The name of the model.
        model: String,
        /// The message of the model.
        reason: String,
    },
}
