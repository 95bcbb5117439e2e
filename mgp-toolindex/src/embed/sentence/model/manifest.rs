//! The list of the files of a model, with what they are and where they come from (MGP §16.4).
//!
//! Applies to: both.

use super::{MODEL, TOKENIZER};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, io::Read, path::Path};

/// The form of the manifest; a program reads its own form and no other.
pub(super) const FORMAT: u32 = 1;

/// The name of the file; it is written last, so that a folder that has one is whole.
pub(super) const MANIFEST: &str = "manifest.json";

/// What is in a model's folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelManifest {
    /// The form of the manifest.
    pub format: u32,
    /// The name of the model.
    pub model: String,
    /// How its weights are kept.
    pub precision: String,
    /// Its licence, as an SPDX expression.
    pub licence: String,
    /// How many numbers a vector has.
    pub dimensions: usize,
    /// How much of a text is read.
    pub max_tokens: usize,
    /// The library that runs it.
    pub runtime: ModelRuntime,
    /// All files, by their names.
    pub files: BTreeMap<String, ModelFile>,
    /// The packages they were made from, with the SHA-256 of each.
    pub sources: BTreeMap<String, String>,
}

/// The library that runs a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelRuntime {
    /// Its version.
    pub version: String,
    /// The name of its file.
    pub file: String,
    /// Its licence, as an SPDX expression.
    pub licence: String,
}

/// A file of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelFile {
    /// Its length.
    pub bytes: u64,
    /// Its BLAKE3 hash, in hexadecimal.
    pub blake3: String,
}

impl ModelManifest {
    /// Reads a manifest, and refuses one that leads out of its folder or lacks what a model has.
    pub(super) fn read(text: &[u8]) -> Result<Self, Fault> {
        let manifest: Self = serde_json::from_slice(text).map_err(Fault::Json)?;
        if manifest.format != FORMAT {
            return Err(Fault::Format(manifest.format));
        }
        if let Some(name) = manifest.files.keys().find(|name| !is_plain(name)) {
            return Err(Fault::Name(name.clone()));
        }
        let wanted = TOKENIZER.into_iter().chain([MODEL, &manifest.runtime.file]);
        let missing = wanted.into_iter().find(|name| !manifest.files.contains_key(*name));
        if let Some(name) = missing {
            return Err(Fault::Unlisted(name.to_owned()));
        }
        if manifest.dimensions == 0 || manifest.max_tokens < 8 {
            return Err(Fault::Figures);
        }
        Ok(manifest)
    }

    /// Names what decides about a vector: vectors of one key can be compared.
    pub(crate) fn key(&self) -> String {
        // Another network, tokenizer or limit makes other vectors, whatever the model is called.
        let mut hash = blake3::Hasher::new();
        for name in TOKENIZER.into_iter().chain([MODEL]) {
            hash.update(self.files.get(name).map_or(&[], |file| file.blake3.as_bytes()));
        }
        let Self { model, precision, max_tokens, .. } = self;
        format!("{model} {precision} {max_tokens} {}", &hash.finalize().to_hex()[..12])
    }
}

impl ModelFile {
    /// What a file is, from its bytes.
    pub(super) fn of(mut file: impl Read) -> std::io::Result<Self> {
        let mut hash = blake3::Hasher::new();
        let bytes = std::io::copy(&mut file, &mut hash)?;
        Ok(Self { bytes, blake3: hash.finalize().to_hex().to_string() })
    }
}

/// What is wrong with a manifest.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// It is cut short, or something else.
    #[error("{0}")]
    Json(#[source] serde_json::Error),
    /// It is of another version of this program.
    #[error("its format is {0}, this program reads {FORMAT}")]
    Format(u32),
    /// A file that is not in the folder.
    #[error("`{0}` is no name of a file in this folder")]
    Name(String),
    /// A file that every model has.
    #[error("it does not list `{0}`")]
    Unlisted(String),
    /// A vector has at least one number, and a text some tokens.
    #[error("its figures cannot be")]
    Figures,
}

fn is_plain(name: &str) -> bool {
    Path::new(name).file_name().is_some_and(|last| last == name) && !name.contains(['/', '\\', ':'])
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A manifest of empty files.
    pub(crate) fn sample() -> ModelManifest {
        let names = TOKENIZER.into_iter().chain([MODEL, "lib.so"]);
        let file = ModelFile::of(&b""[..]).unwrap();
        ModelManifest {
            format: FORMAT,
            model: "sample".into(),
            precision: "int8".into(),
            licence: "MIT".into(),
            dimensions: 4,
            max_tokens: 256,
            runtime: ModelRuntime {
                version: "1.31.1".into(),
                file: "lib.so".into(),
                licence: "MIT".into(),
            },
            files: names.map(|name| (name.to_owned(), file.clone())).collect(),
            sources: BTreeMap::new(),
        }
    }

    #[track_caller]
    fn check(change: impl FnOnce(&mut ModelManifest), expected: &str) {
        let mut manifest = sample();
        change(&mut manifest);
        let refusal = ModelManifest::read(&serde_json::to_vec(&manifest).unwrap()).unwrap_err();
        assert!(refusal.to_string().contains(expected), "{refusal}");
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let text = serde_json::to_vec(&sample()).unwrap();
        assert_eq!(ModelManifest::read(&text).unwrap(), sample());
    }

    #[test]
    fn a_manifest_that_cannot_be_is_refused() {
        check(|manifest| manifest.format = 2, "format is 2");
        check(|manifest| drop(manifest.files.remove(MODEL)), "does not list `model.onnx`");
        check(|manifest| manifest.runtime.file = "other.so".into(), "does not list `other.so`");
        check(|manifest| manifest.dimensions = 0, "figures");
        for name in ["../lib.so", "/lib.so", "a/b", "a\\b", "c:d", "", ".."] {
            let file = ModelFile::of(&b""[..]).unwrap();
            check(|manifest| drop(manifest.files.insert(name.into(), file)), "is no name");
        }
    }

    #[test]
    fn another_network_has_another_key() {
        let mut other = sample();
        assert_eq!(other.key(), sample().key());
        let file = ModelFile::of(&b"other"[..]).unwrap();
        other.files.insert(MODEL.into(), file.clone());
        assert_ne!(other.key(), sample().key());
        // The library does not decide about vectors, but for the last digits.
        let mut same = sample();
        same.files.insert("lib.so".into(), file);
        assert_eq!(same.key(), sample().key());
    }
}
