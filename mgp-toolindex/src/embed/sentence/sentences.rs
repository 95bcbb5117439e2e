//! The sentence encoder itself (MGP §16.4).

use super::{
    config::SentencesConfig,
    error::ModelError,
    fair_mutex::FairMutex,
    folder::{MODEL, ModelFolder, ModelManifest, TOKENIZER},
    goldens,
    runtime::runtime,
    vector_cache::VectorCache,
};
use crate::embed::{Cost, EmbedError, Embedder};
use fastembed::{
    InitOptionsUserDefined, Pooling, TextEmbedding, TokenizerFiles, UserDefinedEmbeddingModel,
};
use mgp_types::sync::Mutex;
use std::{path::Path, sync::Arc};

/// The maximum number of bytes that are read from a text.
///
/// The tokenizer truncates to a few hundred tokens, but only after it has read the whole text. The first 256 tokens
/// of any useful text are shorter than this limit.
const MAX_TEXT_BYTES: usize = 16 * 1024;

/// A sentence encoder: texts of similar meaning get similar vectors, even if they have no word in common.
///
/// Embedding a query takes about half a millisecond, embedding a tool a few milliseconds. The encoder uses 90 MB of
/// memory. It embeds texts one at a time, because a model with quantised weights quantises all texts of a batch
/// together: the vector of a text would depend on the other texts of its batch.
///
/// ```no_run
/// use mgp_toolindex::{Embedder as _, Sentences};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let encoder = Sentences::open("/var/lib/mgp/model")?;
/// assert_eq!(encoder.embed("send an email to my manager")?.len(), encoder.dimensions());
/// # Ok(()) }
/// ```
pub struct Sentences {
    model: String,
    dimensions: usize,
    encoder: FairMutex<TextEmbedding>,
    cache: Mutex<VectorCache>,
}

impl Sentences {
    /// Opens the model in a folder; `docs/sentence-encoder.md` describes the content of the folder and how to create
    /// it.
    ///
    /// Blocks for some tenths of a second, because it compares all files with the manifest, and the vectors of some
    /// texts with their known vectors. A process loads the library only once, so all encoders use the library of the
    /// first encoder.
    ///
    /// # Errors
    /// Returns [`ModelError`] with the fault of the folder, the library or the model, and the remedy.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, ModelError> {
        Self::open_with(folder, &SentencesConfig::default())
    }

    /// Opens a model with these options.
    ///
    /// # Errors
    /// Returns the same errors as [`open`](Self::open).
    pub fn open_with(
        folder: impl AsRef<Path>,
        config: &SentencesConfig,
    ) -> Result<Self, ModelError> {
        let folder = ModelFolder::new(folder.as_ref())?;
        let manifest = folder.manifest()?;
        let read = |name: &str| folder.read(&manifest, name);
        let [tokenizer, config_file, special_tokens, tokenizer_config] = TOKENIZER;
        let tokenizer = TokenizerFiles {
            tokenizer_file: read(tokenizer)?,
            config_file: read(config_file)?,
            special_tokens_map_file: read(special_tokens)?,
            tokenizer_config_file: read(tokenizer_config)?,
        };
        let onnx = read(MODEL)?;
        let environment = match &config.library {
            Some(library) => runtime(library)?,
            None => runtime(&folder.library(&manifest)?)?,
        };
        let model = UserDefinedEmbeddingModel::new(onnx, tokenizer).with_pooling(Pooling::Mean);
        // Use one thread: with two threads, encoding a text takes as long, but twice the processor time.
        let options = InitOptionsUserDefined::new()
            .with_environment(environment)
            .with_intra_threads(1)
            .with_max_length(manifest.max_tokens);
        let encoder =
            TextEmbedding::try_new_from_user_defined(model, options).map_err(|reason| {
                ModelError::Refused { model: manifest.model.clone(), reason: reason.into() }
            })?;
        let encoder = Self::new(manifest.key(), manifest.dimensions, encoder, config);
        encoder.self_test(&manifest)?;
        Ok(encoder)
    }

    /// Opens a model; on failure, logs the reason and returns `fallback`.
    pub fn open_or(
        folder: impl AsRef<Path>,
        config: &SentencesConfig,
        fallback: Arc<dyn Embedder>,
    ) -> Arc<dyn Embedder> {
        match Self::open_with(folder, config) {
            Ok(encoder) => Arc::new(encoder),
            Err(reason) => {
                tracing::warn!(%reason, fallback = fallback.model(), "sentence encoder unavailable");
                fallback
            }
        }
    }

    pub(super) fn new(
        model: String,
        dimensions: usize,
        encoder: TextEmbedding,
        config: &SentencesConfig,
    ) -> Self {
        let cache = Mutex::new(VectorCache::new(config.cached_vectors));
        Self { model, dimensions, encoder: FairMutex::new(encoder), cache }
    }

    /// Compares the vectors of some texts with their known vectors. Returns an error if the processor or the library
    /// computes wrong vectors, or the files belong to another model. A model without known vectors only has to compute
    /// a vector.
    fn self_test(&self, manifest: &ModelManifest) -> Result<(), ModelError> {
        if manifest.model == goldens::MODEL {
            let cosine = goldens::check(self)?;
            tracing::debug!(model = self.model, cosine, "sentence encoder checked");
        } else {
            self.vector("a text")?;
        }
        Ok(())
    }

    pub(super) fn vector(&self, text: &str) -> Result<Vec<f32>, ModelError> {
        let text = crate::text::truncate(text, MAX_TEXT_BYTES);
        if text.trim().is_empty() {
            return Ok(vec![0.0; self.dimensions]);
        }
        let key = *blake3::hash(text.as_bytes()).as_bytes();
        let cached = self.cache.lock().get(&key);
        if let Some(vector) = cached {
            return Ok(vector.to_vec());
        }
        let vector = self.run(text)?;
        self.cache.lock().insert(key, Arc::from(vector.as_slice()));
        Ok(vector)
    }

    fn run(&self, text: &str) -> Result<Vec<f32>, ModelError> {
        let answer = self.encoder.lock().embed([text], None);
        let mut rows = answer.map_err(|reason| ModelError::failed(&self.model)(reason.into()))?;
        let row = rows.pop().unwrap_or_default();
        if row.len() != self.dimensions {
            let what = format!("a vector has {} numbers instead of {}", row.len(), self.dimensions);
            return Err(ModelError::failed(&self.model)(what.into()));
        }
        if !row.iter().all(|number| number.is_finite()) {
            return Err(ModelError::failed(&self.model)(
                "a vector has a number that is not finite".into(),
            ));
        }
        Ok(row)
    }
}

impl Embedder for Sentences {
    fn model(&self) -> &str {
        &self.model
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn embed(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        Ok(self.vector(text)?)
    }

    fn cost(&self) -> Cost {
        Cost::Large
    }
}

mgp_types::opaque_debug!(Sentences { model, dimensions });

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Nothing;

    impl Embedder for Nothing {
        fn model(&self) -> &'static str {
            "nothing"
        }

        fn dimensions(&self) -> usize {
            1
        }

        fn embed(&self, _: &str) -> Result<Vec<f32>, EmbedError> {
            Ok(vec![0.0])
        }
    }

    #[test]
    fn without_a_model_another_embedder_serves() {
        let config = SentencesConfig::default();
        let embedder = Sentences::open_or("/nowhere", &config, Arc::new(Nothing));
        assert_eq!(embedder.model(), "nothing");
    }
}
