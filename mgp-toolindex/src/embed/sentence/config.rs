//! What can be chosen about a sentence encoder (MGP §16.4).
//!
//! Applies to: both.

use std::path::PathBuf;

/// How a sentence encoder is opened.
#[derive(Clone, Debug)]
#[must_use]
#[non_exhaustive]
pub struct SentencesConfig {
    /// The library of onnxruntime, 1.24 or newer; the one in the model's folder if nobody says.
    pub library: Option<PathBuf>,
    /// How many vectors of texts that were asked before are kept.
    pub kept: usize,
    /// Where models of the hub are kept.
    pub cache: PathBuf,
}

impl SentencesConfig {
    /// Takes a library of one's own, such as the one of the system.
    pub fn library(mut self, library: impl Into<PathBuf>) -> Self {
        self.library = Some(library.into());
        self
    }

    /// Keeps this many vectors of texts that were asked before.
    pub fn kept(mut self, most: usize) -> Self {
        self.kept = most;
        self
    }

    /// Keeps models of the hub in this folder.
    pub fn cache(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cache = folder.into();
        self
    }
}

impl Default for SentencesConfig {
    fn default() -> Self {
        // A program may be started anywhere; what it downloads belongs to the user, not to that place.
        let home = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(|| {
            let home = std::env::var_os("HOME").or_else(|| std::env::var_os("USERPROFILE"))?;
            Some(PathBuf::from(home).join(".cache"))
        });
        let cache = home.unwrap_or_else(std::env::temp_dir).join("mgp").join("hub");
        Self { library: None, kept: 256, cache }
    }
}
