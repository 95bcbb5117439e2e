//! A test with libraries that cannot run the sentence encoder, followed by a library that can (MGP §16.4).
//!
//! A process can load the library only once, so this is a single test in its own process. `MGP_MODEL` names the model's
//! folder; docs/sentence-encoder.md describes how to create the folder.
#![expect(clippy::print_stderr, reason = "a skipped test reports it")]

use mgp_toolindex::{Embedder as _, ModelError, Sentences, SentencesConfig};
use std::{fs, path::Path, sync::Arc};

#[test]
fn a_library_that_cannot_be_used_is_an_error_and_the_next_one_is_tried() {
    let Some(folder) = std::env::var_os("MGP_MODEL") else {
        return eprintln!("SKIPPED: MGP_MODEL does not name the folder of a model");
    };
    let manifest = fs::read(Path::new(&folder).join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    let runtime = |member: &str| manifest["runtime"][member].as_str().unwrap();
    let library = fs::read(Path::new(&folder).join(runtime("file"))).unwrap();
    let scratch = mgp_testkit::temp_dir();
    let open = |library: &Path| {
        Sentences::open_with(&folder, &SentencesConfig::default().library(library))
    };
    let refused = |name: &str, bytes: Option<&[u8]>, expected: &str| {
        let library = scratch.path().join(name);
        if let Some(bytes) = bytes {
            fs::write(&library, bytes).unwrap();
        }
        let refusal = open(&library).unwrap_err();
        assert!(matches!(refusal, ModelError::Library { .. }), "{refusal}");
        let message = refusal.to_string();
        assert!(message.contains(name) && message.contains("1.24 or newer"), "{message}");
        assert!(message.contains(expected), "{message}");
    };

    refused("missing.so", None, "");
    refused("empty.so", Some(b""), "");
    refused("text.so", Some(b"this is not a library"), "");
    refused("cut.so", Some(&library[..100_000]), "truncated");
    refused("nearly.so", Some(&library[..library.len() - library.len() / 10]), "truncated");
    // A program is not a library, so loading it must be refused.
    let program = fs::read(std::env::current_exe().unwrap()).unwrap();
    refused("program.so", Some(&program), "");
    // Change the version number in the library to an older version, which is not supported.
    let version = format!("\0{}\0", runtime("version"));
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
    // From now on, every encoder uses the loaded library, whichever file is named.
    assert!(open(&scratch.path().join("missing.so")).is_ok());
}
