//! The sentence encoder itself (MGP §16.4).
//!
//! Applies to: both.

use super::{
    config::SentencesConfig,
    error::ModelError,
    goldens,
    model::{ModelFolder, ModelManifest, TOKENIZER},
    recent::Recent,
    runtime::runtime,
    turns::Turns,
};
use crate::embed::{Cost, EmbedError, Embedder};
use fastembed::{
    InitOptionsUserDefined, Pooling, TextEmbedding, TokenizerFiles, UserDefinedEmbeddingModel,
};
use std::{
    fmt,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

/// What is read of a text.
///
/// The tokenizer cuts after a few hundred tokens, but reads all of the text before it does; nothing that is worth
/// reading has its first 256 tokens in more than this.
const LONGEST: usize = 16 * 1024;

/// A sentence encoder: texts of one meaning get near vectors, whatever their words.
///
/// It costs about half a millisecond for a query and some for a tool, and 90 MB.
/// Texts run one at a time: an encoder with weights in single bytes rates each against the others of its batch, and
/// the same text would have different vectors.
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
    encoder: Turns<TextEmbedding>,
    recent: Mutex<Recent>,
}

impl Sentences {
    /// Opens the model in a folder that [`ModelFolder`] made.
    ///
    /// This blocks for some tenths of a second: it reads all files, compares them with the manifest, and asks the
    /// encoder for vectors that are known.
    /// The library is loaded once for each process; the first one serves all encoders.
    ///
    /// # Errors
    /// [`ModelError`] says what is wrong with the folder, the library or the model, and what to do; it never panics.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, ModelError> {
        Self::open_with(folder, &SentencesConfig::default())
    }

    /// Opens a model as configured.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
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
        let onnx = read(super::model::MODEL)?;
        let environment = match &config.library {
            Some(library) => runtime(library)?,
            None => runtime(&folder.library(&manifest)?)?,
        };
        let model = UserDefinedEmbeddingModel::new(onnx, tokenizer).with_pooling(Pooling::Mean);
        // A second thread makes one text no faster and doubles what it costs.
        let options = InitOptionsUserDefined::new()
            .with_environment(environment)
            .with_intra_threads(1)
            .with_max_length(manifest.max_tokens);
        let encoder =
            TextEmbedding::try_new_from_user_defined(model, options).map_err(|reason| {
                ModelError::Refused { model: manifest.model.clone(), reason: reason.into() }
            })?;
        let encoder = Self::new(manifest.key(), manifest.dimensions, encoder, config);
        encoder.is_sane(&manifest)?;
        Ok(encoder)
    }

    /// Opens a model, or says in the log why it cannot be and goes on with another embedder.
    pub fn open_or(
        folder: impl AsRef<Path>,
        config: &SentencesConfig,
        other: Arc<dyn Embedder>,
    ) -> Arc<dyn Embedder> {
        match Self::open_with(folder, config) {
            Ok(encoder) => Arc::new(encoder),
            Err(reason) => {
                tracing::warn!(%reason, instead = other.model(), "there is no sentence encoder");
                other
            }
        }
    }

    /// Wraps an encoder that runs.
    pub(super) fn new(
        model: String,
        dimensions: usize,
        encoder: TextEmbedding,
        config: &SentencesConfig,
    ) -> Self {
        let recent = Mutex::new(Recent::new(config.kept));
        Self { model, dimensions, encoder: Turns::new(encoder), recent }
    }

    /// A processor or library that miscalculates is found here, and so is a file that only looks like the model.
    fn is_sane(&self, manifest: &ModelManifest) -> Result<(), ModelError> {
        if manifest.model == goldens::MODEL {
            let worst = goldens::check(self)?;
            tracing::debug!(model = self.model, worst, "the sentence encoder answers as it should");
        } else {
            self.vector("a text")?;
        }
        Ok(())
    }

    /// The vector of a text.
    pub(super) fn vector(&self, text: &str) -> Result<Vec<f32>, ModelError> {
        let text = cut(text, LONGEST);
        if text.trim().is_empty() {
            return Ok(vec![0.0; self.dimensions]);
        }
        let key = *blake3::hash(text.as_bytes()).as_bytes();
        let known = self.recent.lock().unwrap_or_else(PoisonError::into_inner).get(&key);
        if let Some(vector) = known {
            return Ok(vector.to_vec());
        }
        let vector = self.run(text)?;
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.keep(key, Arc::from(vector.as_slice()));
        Ok(vector)
    }

    /// Runs the encoder, on one text.
    fn run(&self, text: &str) -> Result<Vec<f32>, ModelError> {
        let answer = self.encoder.take().embed([text], None);
        let mut rows = answer.map_err(|reason| ModelError::failed(&self.model)(reason.into()))?;
        let row = rows.pop().unwrap_or_default();
        if row.len() != self.dimensions {
            let what = format!("a vector has {} numbers instead of {}", row.len(), self.dimensions);
            return Err(ModelError::failed(&self.model)(what.into()));
        }
        if !row.iter().all(|number| number.is_finite()) {
            return Err(ModelError::failed(&self.model)(
                "a vector has numbers that are none".into(),
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

impl fmt::Debug for Sentences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Sentences");
        shown.field("model", &self.model).field("dimensions", &self.dimensions);
        shown.finish_non_exhaustive()
    }
}

/// The beginning of a text, not longer than this, and never half a character.
fn cut(text: &str, longest: usize) -> &str {
    &text[..text.floor_char_boundary(longest)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An embedder that knows nothing.
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

    #[test]
    fn a_long_text_is_cut_between_characters() {
        for (text, expected) in
            [("", ""), ("abc", "abc"), ("abcde", "abcd"), ("abc語", "abc"), ("🎷🎷", "🎷")]
        {
            assert_eq!(cut(text, 4), expected);
        }
    }
}
