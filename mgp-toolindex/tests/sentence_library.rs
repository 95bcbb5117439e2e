//! Libraries that cannot run the sentence encoder, and then one that can (MGP §16.4).
//!
//! A process loads one library, once: this is one story, in a process of its own.
//! `MGP_MODEL` names the model's folder; `cargo xtask model DIR` makes one.
//!
//! Applies to: both.

use mgp_toolindex::{Embedder as _, ModelError, ModelFolder, Sentences, SentencesConfig};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Gone at the end.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

#[test]
fn a_library_that_cannot_be_used_is_an_error_and_the_next_one_is_tried() {
    let folder = std::env::var_os("MGP_MODEL");
    let folder = folder.expect("MGP_MODEL names a folder that `cargo xtask model DIR` made");
    let manifest = ModelFolder::new(&folder).unwrap().check().unwrap();
    let library = fs::read(Path::new(&folder).join(&manifest.runtime.file)).unwrap();
    let scratch = std::env::temp_dir().join(format!("mgp-library-{}", std::process::id()));
    fs::create_dir_all(&scratch).unwrap();
    let scratch = Scratch(scratch);
    let open = |library: &Path| {
        Sentences::open_with(&folder, &SentencesConfig::default().library(library))
    };
    let refused = |name: &str, bytes: Option<&[u8]>, expected: &str| {
        let library = scratch.0.join(name);
        if let Some(bytes) = bytes {
            fs::write(&library, bytes).unwrap();
        }
        let refusal = open(&library).unwrap_err();
        assert!(matches!(refusal, ModelError::Library { .. }), "{refusal}");
        let said = refusal.to_string();
        assert!(said.contains(name) && said.contains("1.24 or newer"), "{said}");
        assert!(said.contains(expected), "{said}");
    };

    refused("missing.so", None, "");
    refused("empty.so", Some(b""), "");
    refused("text.so", Some(b"this is no library"), "");
    refused("cut.so", Some(&library[..100_000]), "cut short");
    refused("nearly.so", Some(&library[..library.len() - library.len() / 10]), "cut short");
    // A program of ours is a library to no one.
    let program = fs::read(std::env::current_exe().unwrap()).unwrap();
    refused("program.so", Some(&program), "");
    // The same library, as it would call itself if it were too old.
    let version = format!("\0{}\0", manifest.runtime.version);
    let mut old = library;
    let places: Vec<_> = old.windows(version.len()).enumerate().collect();
    let places: Vec<_> = places.iter().filter(|(_, text)| *text == version.as_bytes()).collect();
    let at = places.first().map(|(at, _)| *at).unwrap();
    assert_eq!(places.len(), 1);
    old[at + 1..][..6].copy_from_slice(b"1.20.1");
    refused("old.so", Some(&old), "1.20.1");

    let encoder = Sentences::open(&folder).unwrap();
    assert_eq!(encoder.embed("a text").unwrap().len(), encoder.dimensions());
    let name = encoder.model().to_owned();
    let encoder = Sentences::open_or(&folder, &SentencesConfig::default(), Arc::new(encoder));
    assert_eq!(encoder.model(), name);
    // One that is loaded serves whoever asks for another one from then on.
    assert!(open(&scratch.0.join("missing.so")).is_ok());
}
