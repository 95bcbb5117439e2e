//! Options of a sentence encoder (MGP §16.4).

use std::path::PathBuf;

/// Options of a sentence encoder.
#[derive(Clone, Debug)]
#[must_use]
#[non_exhaustive]
pub struct SentencesConfig {
    /// The onnxruntime library, version 1.24 or newer. `None` means the library in the model's folder; for a model of
    /// the hub, `Sentences::from_hub` describes which library is used.
    pub library: Option<PathBuf>,
    /// The maximum number of vectors in the cache of the encoder.
    pub cached_vectors: usize,
    /// The cache folder for models that are downloaded from the Hugging Face hub.
    pub cache: PathBuf,
}

impl SentencesConfig {
    /// Sets the path of the onnxruntime library, e.g. of the library that the system installs.
    pub fn library(mut self, library: impl Into<PathBuf>) -> Self {
        self.library = Some(library.into());
        self
    }

    /// Sets the maximum number of cached vectors.
    pub fn cached_vectors(mut self, max: usize) -> Self {
        self.cached_vectors = max;
        self
    }
}

impl Default for SentencesConfig {
    fn default() -> Self {
        // Download into the user's cache, so that programs in all working directories share the files.
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let home = cache.filter(|folder| folder.is_absolute()).or_else(|| {
            let home = std::env::var_os("HOME").or_else(|| std::env::var_os("USERPROFILE"))?;
            Some(PathBuf::from(home).join(".cache"))
        });
        let cache = home.unwrap_or_else(std::env::temp_dir).join("mgp").join("hub");
        Self { library: None, cached_vectors: 256, cache }
    }
}
