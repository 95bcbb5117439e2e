//! Opens models from the Hugging Face hub by their names (MGP §16.4).

use super::{config::SentencesConfig, error::ModelError, runtime::runtime, sentences::Sentences};
use fastembed::{EmbeddingModel, ModelInfo, TextEmbedding, TextInitOptions};
use std::{env, env::consts, path::PathBuf};

impl Sentences {
    /// Opens a model of the hub, e.g. `BAAI/bge-small-en-v1.5` or `BGESmallENV15`.
    ///
    /// Downloads the model into [`SentencesConfig::cache`] if it is not there yet, and blocks meanwhile. The library is
    /// [`SentencesConfig::library`], else the one that `ORT_DYLIB_PATH` names, else the system's. Texts are embedded
    /// unchanged, so a model that expects a prefix such as `query:` before a query ranks worse than it could.
    ///
    /// # Errors
    /// Returns [`ModelError`] if the model or the library does not exist, or if the hub cannot be reached.
    pub fn from_hub(model: &str, config: &SentencesConfig) -> Result<Self, ModelError> {
        let ModelInfo { model, dim, model_code: name, .. } = find(model)?;
        let key = format!("hub {name} {model} 256");
        let environment = runtime(&library(config))?;
        let options = TextInitOptions::new(model)
            .with_environment(environment)
            .with_intra_threads(1)
            .with_max_length(256)
            .with_cache_dir(config.cache.clone())
            .with_show_download_progress(false);
        let encoder = TextEmbedding::try_new(options)
            .map_err(|reason| ModelError::Refused { model: name.clone(), reason: reason.into() })?;
        let encoder = Self::new(key, dim, encoder, config);
        encoder.vector("a text")?;
        Ok(encoder)
    }
}

/// Finds a model by its name in fastembed, or by its name on the hub.
///
/// A model on the hub can have variants with different precision. Among them, the standard variant has the shortest
/// name in fastembed.
fn find(model: &str) -> Result<ModelInfo<EmbeddingModel>, ModelError> {
    let all = || TextEmbedding::list_supported_models().into_iter();
    let own = all().find(|info| info.model.to_string().eq_ignore_ascii_case(model));
    let at_the_hub = || all().filter(|info| info.model_code.eq_ignore_ascii_case(model));
    let found = own.or_else(|| at_the_hub().min_by_key(|info| info.model.to_string().len()));
    found.ok_or_else(|| {
        let mut known: Vec<_> = all().map(|info| info.model_code).collect();
        known.sort_unstable();
        known.dedup();
        ModelError::NoSuchModel { name: model.to_owned(), known: known.join(", ") }
    })
}

fn library(config: &SentencesConfig) -> PathBuf {
    let named = || env::var_os("ORT_DYLIB_PATH").filter(|path| !path.is_empty()).map(PathBuf::from);
    let own = || format!("{}onnxruntime{}", consts::DLL_PREFIX, consts::DLL_SUFFIX).into();
    config.library.clone().or_else(named).unwrap_or_else(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_has_two_names() {
        for name in ["BGESmallENV15", "bgesmallenv15", "Qdrant/all-MiniLM-L6-v2-onnx"] {
            assert_eq!(find(name).unwrap().dim, 384, "{name}");
        }
    }

    #[test]
    fn a_hub_name_with_several_precisions_means_the_plain_one() {
        for (name, expected) in [
            ("Xenova/all-MiniLM-L12-v2", EmbeddingModel::AllMiniLML12V2),
            ("AllMiniLML12V2Q", EmbeddingModel::AllMiniLML12V2Q),
        ] {
            assert_eq!(find(name).unwrap().model, expected);
        }
    }

    #[test]
    fn an_unknown_model_is_refused_with_the_known_ones() {
        let refusal = find("unknown/nothing").unwrap_err().to_string();
        assert!(refusal.contains("`unknown/nothing`") && refusal.contains("bge-small-en-v1.5"));
    }

    #[test]
    fn a_library_that_is_missing_is_an_error_before_anything_is_downloaded() {
        let config = SentencesConfig::default().library("/nowhere/libonnxruntime.so");
        let refusal = Sentences::from_hub("BGESmallENV15", &config).unwrap_err();
        assert!(matches!(refusal, ModelError::Library { .. }), "{refusal}");
    }
}
