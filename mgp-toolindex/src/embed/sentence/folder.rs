//! The folder of a model: its manifest, and the files that the manifest names (MGP §16.4).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::error::ModelError;

pub(super) const MODEL: &str = "model.onnx";

/// The files of the tokenizer, in the order that fastembed expects.
pub(super) const TOKENIZER: [&str; 4] =
    ["tokenizer.json", "config.json", "special_tokens_map.json", "tokenizer_config.json"];

/// The only manifest format that this version reads.
const FORMAT: u32 = 1;

/// The file name of the manifest. The manifest is written last, so a folder that contains it is complete.
const MANIFEST: &str = "manifest.json";

#[derive(Clone, Debug)]
pub(super) struct ModelFolder {
    path: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct ModelManifest {
    format: u32,
    pub(super) model: String,
    precision: String,
    /// The number of elements of the model's vectors.
    pub(super) dimensions: usize,
    /// The maximum number of tokens that the model reads from a text.
    pub(super) max_tokens: usize,
    runtime: ModelRuntime,
    files: BTreeMap<String, ModelFile>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct ModelRuntime {
    /// The name of the file with the runtime's library.
    file: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct ModelFile {
    bytes: u64,
    blake3: String,
}

#[derive(Debug, thiserror::Error)]
enum ManifestError {
    #[error("{0}")]
    Json(#[source] serde_json::Error),
    #[error("its format is {0}, this program reads {FORMAT}")]
    Format(u32),
    #[error("`{0}` is not a file name in this folder")]
    Name(String),
    #[error("it does not list `{0}`")]
    Unlisted(String),
    #[error("it needs at least one dimension and eight tokens")]
    Sizes,
}

impl ModelFolder {
    pub(super) fn new(path: &Path) -> Result<Self, ModelError> {
        // Make the path absolute, because the loader of libraries resolves a relative path against the program's
        // folder.
        let path = std::path::absolute(path).map_err(ModelError::file(path))?;
        Ok(Self { path })
    }

    pub(super) fn manifest(&self) -> Result<ModelManifest, ModelError> {
        let file = self.path.join(MANIFEST);
        let text = fs::read(&file).map_err(|reason| match reason.kind() {
            io::ErrorKind::NotFound => ModelError::NoModel { folder: self.path.clone() },
            _ => ModelError::File { file: file.clone(), reason },
        })?;
        ModelManifest::parse(&text)
            .map_err(|reason| ModelError::Manifest { file, reason: reason.into() })
    }

    /// Reads a file, and returns an error if it differs from the manifest.
    pub(super) fn read(&self, manifest: &ModelManifest, name: &str) -> Result<Vec<u8>, ModelError> {
        let file = self.path.join(name);
        let bytes = fs::read(&file).map_err(ModelError::read(&file))?;
        manifest.check(name, &*bytes, file)?;
        Ok(bytes)
    }

    /// Returns the path of the library, after comparing its content with the manifest, so that no other file is loaded.
    pub(super) fn library(&self, manifest: &ModelManifest) -> Result<PathBuf, ModelError> {
        let file = self.path.join(&manifest.runtime.file);
        let bytes = File::open(&file).map_err(ModelError::read(&file))?;
        manifest.check(&manifest.runtime.file, bytes, file)
    }
}

impl ModelManifest {
    /// Parses a manifest; returns an error if it names a path outside of the folder, or lacks a file that every model
    /// needs.
    fn parse(text: &[u8]) -> Result<Self, ManifestError> {
        let manifest: Self = serde_json::from_slice(text).map_err(ManifestError::Json)?;
        if manifest.format != FORMAT {
            return Err(ManifestError::Format(manifest.format));
        }
        if let Some(name) = manifest.files.keys().find(|name| !is_file_name(name)) {
            return Err(ManifestError::Name(name.clone()));
        }
        let wanted = TOKENIZER.into_iter().chain([MODEL, &manifest.runtime.file]);
        let missing = wanted.into_iter().find(|name| !manifest.files.contains_key(*name));
        if let Some(name) = missing {
            return Err(ManifestError::Unlisted(name.to_owned()));
        }
        if manifest.dimensions == 0 || manifest.max_tokens < 8 {
            return Err(ManifestError::Sizes);
        }
        Ok(manifest)
    }

    /// Returns a key for everything that influences the vectors. Only vectors with the same key can be compared.
    pub(super) fn key(&self) -> String {
        // Leave the library out of the key, because it affects only the last digits of a vector.
        let mut hash = blake3::Hasher::new();
        for name in TOKENIZER.into_iter().chain([MODEL]) {
            hash.update(self.files.get(name).map_or(&[], |file| file.blake3.as_bytes()));
        }
        let Self { model, precision, max_tokens, .. } = self;
        format!("{model} {precision} {max_tokens} {}", &hash.finalize().to_hex()[..12])
    }

    /// Returns the path `file` if the length and the hash of `bytes` match the manifest's entry for `name`.
    fn check(&self, name: &str, bytes: impl Read, file: PathBuf) -> Result<PathBuf, ModelError> {
        let found = ModelFile::of(bytes).map_err(ModelError::read(&file))?;
        if self.files.get(name) == Some(&found) {
            return Ok(file);
        }
        Err(ModelError::Changed { file })
    }
}

impl ModelFile {
    fn of(mut file: impl Read) -> io::Result<Self> {
        let mut hash = blake3::Hasher::new();
        let bytes = io::copy(&mut file, &mut hash)?;
        Ok(Self { bytes, blake3: hash.finalize().to_hex().to_string() })
    }
}

fn is_file_name(name: &str) -> bool {
    Path::new(name).file_name().is_some_and(|last| last == name) && !name.contains(['/', '\\', ':'])
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::embed::sentence::Sentences;
    use serde_json::{Value, json};

    /// Returns a manifest whose files are all empty.
    fn sample() -> Value {
        let empty = json!({"bytes": 0, "blake3": blake3::hash(b"").to_hex().as_str()});
        let names = TOKENIZER.into_iter().chain([MODEL, "lib.so"]);
        let files: serde_json::Map<_, _> =
            names.map(|name| (name.to_owned(), empty.clone())).collect();
        json!({
            "format": 1, "model": "sample", "precision": "int8", "dimensions": 4, "max_tokens": 256,
            "runtime": {"version": "1.31.1", "file": "lib.so"}, "files": files,
        })
    }

    fn parse(manifest: &Value) -> Result<ModelManifest, ManifestError> {
        ModelManifest::parse(manifest.to_string().as_bytes())
    }

    /// Returns a valid model folder whose files are all empty.
    fn folder() -> (mgp_testkit::TempDir, ModelFolder) {
        let path = mgp_testkit::temp_dir();
        let manifest = sample();
        for name in manifest["files"].as_object().unwrap().keys() {
            fs::write(path.path().join(name), b"").unwrap();
        }
        fs::write(path.path().join(MANIFEST), manifest.to_string()).unwrap();
        let folder = ModelFolder::new(path.path()).unwrap();
        (path, folder)
    }

    #[test]
    fn a_complete_folder_is_read() {
        let (path, folder) = folder();
        let manifest = folder.manifest().unwrap();
        assert_eq!(folder.read(&manifest, MODEL).unwrap(), b"");
        assert!(folder.library(&manifest).unwrap().is_absolute());
        // All files match the manifest, so opening first fails because the library is empty; it is not loaded.
        let refusal = Sentences::open(path.path()).unwrap_err();
        assert!(matches!(&refusal, ModelError::Library { .. }), "{refusal}");
    }

    #[test]
    fn a_folder_without_a_manifest_is_refused_with_the_remedy() {
        let refusal = Sentences::open("nowhere/at/all").unwrap_err();
        assert!(matches!(refusal, ModelError::NoModel { .. }));
        assert!(refusal.to_string().contains("docs/sentence-encoder.md"), "{refusal}");
    }

    #[test]
    fn a_missing_or_changed_file_is_named() {
        let (path, folder) = folder();
        let manifest = folder.manifest().unwrap();
        fs::write(path.path().join("lib.so"), b"other bytes").unwrap();
        let refusal = folder.library(&manifest).unwrap_err();
        assert!(matches!(refusal, ModelError::Changed { .. }), "{refusal}");
        fs::remove_file(path.path().join("lib.so")).unwrap();
        let refusal = folder.library(&manifest).unwrap_err();
        assert!(matches!(&refusal, ModelError::Missing { file } if file.ends_with("lib.so")));
        fs::write(path.path().join(MODEL), b"other bytes").unwrap();
        let refusal = Sentences::open(path.path()).unwrap_err();
        assert!(matches!(refusal, ModelError::Changed { .. }), "{refusal}");
    }

    #[test]
    fn a_truncated_manifest_is_refused() {
        let (path, folder) = folder();
        fs::write(path.path().join(MANIFEST), b"{\"format\": 1,").unwrap();
        let refusal = folder.manifest().unwrap_err();
        assert!(matches!(refusal, ModelError::Manifest { .. }), "{refusal}");
    }

    #[test]
    fn an_invalid_manifest_is_refused() {
        #[track_caller]
        fn check(change: impl FnOnce(&mut Value), expected: &str) {
            let mut manifest = sample();
            change(&mut manifest);
            let refusal = parse(&manifest).unwrap_err();
            assert!(refusal.to_string().contains(expected), "{refusal}");
        }

        assert!(parse(&sample()).is_ok());
        check(|manifest| manifest["format"] = 2.into(), "format is 2");
        check(
            |manifest| drop(manifest["files"].as_object_mut().unwrap().remove(MODEL)),
            "does not list `model.onnx`",
        );
        check(|manifest| manifest["runtime"]["file"] = "other.so".into(), "list `other.so`");
        check(|manifest| manifest["dimensions"] = 0.into(), "one dimension");
        for name in ["../lib.so", "/lib.so", "a/b", "a\\b", "c:d", "", ".."] {
            check(
                |manifest| manifest["files"][name] = json!({"bytes": 0, "blake3": ""}),
                "is not a file name",
            );
        }
    }

    #[test]
    fn another_network_has_another_key() {
        let key = |file: &str| {
            let mut manifest = sample();
            manifest["files"][file]["blake3"] = "other".into();
            parse(&manifest).unwrap().key()
        };
        assert_ne!(key(MODEL), key("tokenizer.json"));
        assert_ne!(key(MODEL), key("lib.so"));
        assert_eq!(key("lib.so"), parse(&sample()).unwrap().key());
    }
}
