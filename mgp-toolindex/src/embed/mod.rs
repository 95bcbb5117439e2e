//! Turns text into vectors whose nearness is nearness of meaning (MGP §16.4).
//!
//! Applies to: both.

#[cfg(feature = "fastembed")]
mod sentence;
#[cfg(feature = "static-table")]
mod table;

use std::fmt;

#[cfg(feature = "fastembed")]
pub use sentence::{
    Made, ModelError, ModelFile, ModelFolder, ModelManifest, ModelRuntime, ModelSource,
    ModelWheels, Sentences, SentencesConfig,
};
#[cfg(feature = "static-table")]
pub use table::StaticTable;

/// Makes vectors of texts.
///
/// Tools and queries go through the same embedder; vectors of different ones are never compared.
pub trait Embedder: Send + Sync + fmt::Debug {
    /// Names model and version; vectors are kept under this name.
    fn model(&self) -> &str;

    /// How many numbers a vector has.
    fn dimensions(&self) -> usize;

    /// Makes the vector of a text: of length one, or all zero where nothing of the text is known.
    ///
    /// # Errors
    /// [`EmbedError`] when the model cannot do it; the index then searches by words and says so.
    fn embed(&self, text: &str) -> Result<Vec<f32>, EmbedError>;

    /// What a vector costs.
    fn cost(&self) -> Cost {
        Cost::Small
    }
}

/// What a vector costs to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cost {
    /// Microseconds: made while the tool is added.
    Small,
    /// Milliseconds: made in the background; words serve meanwhile, and older vectors of the same model.
    Large,
}

/// Why a text has no vector.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// The model, or the library that runs it, is not there or does not fit.
    #[error("the model `{model}` cannot be used: {reason}")]
    Unavailable {
        /// The model.
        model: String,
        /// Why, and what to do.
        reason: String,
    },
    /// It ran and failed.
    #[error("the model `{model}` failed: {reason}")]
    Failed {
        /// The model.
        model: String,
        /// What it said.
        reason: String,
    },
}
