//! Tool search, session cache and context budget for the Model General Protocol.

mod embed;

pub use embed::{Cost, EmbedError, Embedder};
#[cfg(feature = "fastembed")]
pub use embed::{
    Made, Manifest, ModelError, ModelFile, ModelFolder, RuntimeFile, Sentences, SentencesConfig,
    Source, Wheels,
};
