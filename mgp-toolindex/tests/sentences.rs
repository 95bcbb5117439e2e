//! Tests of the sentence encoder with a real model and library (MGP §16.4).
//!
//! `MGP_MODEL` names the model's folder; docs/sentence-encoder.md describes how to create the folder.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stderr, reason = "a skipped test reports it")]

use mgp_toolindex::{
    AllTools, Cost, EmbedError, Embedder as _, ModelError, Query, Sentences, SentencesConfig,
    ServerEntry, ToolIndex,
};
use mgp_types::{mcp::Tool, mgp::SearchStrategy};
use proptest::prelude::*;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

/// Returns the folder of a model; if `MGP_MODEL` is not set, prints that the test is skipped.
fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("MGP_MODEL");
    if folder.is_none() {
        eprintln!("SKIPPED: MGP_MODEL does not name the folder of a model");
    }
    folder.map(PathBuf::from)
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// A copy of the folder whose files can be changed.
struct Copy(mgp_testkit::TempDir);

impl Copy {
    fn new(folder: &Path) -> Self {
        let copy = Self(mgp_testkit::temp_dir());
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), copy.0.path().join(entry.file_name())).unwrap();
        }
        copy
    }

    /// Writes a file, and its hash into the manifest.
    fn replace(&self, name: &str, bytes: &[u8]) {
        fs::write(self.0.path().join(name), bytes).unwrap();
        let manifest = self.0.path().join("manifest.json");
        let mut text: serde_json::Value =
            serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
        text["files"][name]["bytes"] = bytes.len().into();
        text["files"][name]["blake3"] = blake3::hash(bytes).to_hex().as_str().into();
        fs::write(&manifest, text.to_string()).unwrap();
    }
}

#[test]
fn texts_of_one_meaning_are_near() {
    let Some(folder) = folder() else { return };
    // `open` also compares the vectors of the encoder with known vectors.
    let encoder = Sentences::open(&folder).unwrap();
    assert_eq!((encoder.dimensions(), encoder.cost()), (384, Cost::Large));
    assert!(encoder.model().starts_with("all-MiniLM-L6-v2 int8 256 "), "{}", encoder.model());
    let query = encoder.embed("let my boss know that I am ill").unwrap();
    let mail = encoder.embed("send_email: Sends a message to a person. to, subject, body").unwrap();
    let other = encoder.embed("resize_image: Scales a picture. width, height").unwrap();
    assert!(cosine(&query, &mail) > cosine(&query, &other) + 0.05);
    assert!((cosine(&mail, &mail) - 1.0).abs() < 1e-4);
}

#[tokio::test]
async fn a_tool_is_found_that_shares_no_word_with_the_query() {
    let Some(folder) = folder() else { return };
    let encoder = Sentences::open(&folder).unwrap();
    let model = encoder.model().to_owned();
    let index = ToolIndex::builder().embedder(Arc::new(encoder)).build();
    let tools = [
        ("send_email", "Sends a message to a colleague"),
        ("resize_image", "Scales a picture to another width and height"),
        ("get_forecast", "Tells temperature, wind and rain of the next days"),
        ("create_invoice", "Bills a customer"),
    ];
    let server = tools.iter().fold(ServerEntry::new("office"), |server, (name, description)| {
        let tool = serde_json::json!({"name": name, "description": description, "inputSchema": {"type": "object"}});
        server.tool(serde_json::from_value::<Tool>(tool).unwrap())
    });
    assert_eq!(index.put(server).unwrap().added, tools.len());
    index.embedded().await.unwrap();
    assert_eq!(index.stats().model.as_deref(), Some(&*model));
    assert_eq!(index.stats().embedded, tools.len());
    for (query, expected) in [
        ("write a note to my boss", "send_email"),
        ("will I need an umbrella on Sunday", "get_forecast"),
        ("make this photo smaller", "resize_image"),
    ] {
        for strategy in [SearchStrategy::Semantic, SearchStrategy::Hybrid] {
            let query = Query::new(query).strategy(strategy);
            let found = index.search(&query, &AllTools).unwrap();
            assert_eq!(found.hits[0].tool.name(), expected, "{query:?}");
            assert!(found.fallback.is_none(), "{query:?}");
        }
    }
}

#[test]
fn a_text_has_the_same_vector_on_every_thread() {
    let Some(folder) = folder() else { return };
    let uncached = SentencesConfig::default().cached_vectors(0);
    let encoder = Sentences::open_with(&folder, &uncached).unwrap();
    let caching = Sentences::open(&folder).unwrap();
    assert_eq!(encoder.model(), caching.model());
    let texts = ["read a file", "write a file to the disk of the user", "翻译", "a"];
    let first: Vec<_> = texts.iter().map(|text| encoder.embed(text).unwrap()).collect();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for (text, vector) in texts.iter().zip(&first).rev() {
                    assert_eq!(encoder.embed(text).unwrap(), *vector, "{text}");
                    assert_eq!(caching.embed(text).unwrap(), *vector, "{text}");
                }
            });
        }
    });
}

#[test]
fn the_end_of_a_long_text_is_not_read() {
    let Some(folder) = folder() else { return };
    let encoder = Sentences::open(&folder).unwrap();
    let long = "reads a file of the user and says what is in it ".repeat(30);
    let vector = encoder.embed(&long).unwrap();
    for end in ["rm -rf", &"delete everything ".repeat(100_000)] {
        assert_eq!(encoder.embed(&format!("{long}{end}")).unwrap(), vector);
    }
}

#[test]
fn hostile_texts_have_vectors() {
    let Some(folder) = folder() else { return };
    let encoder = Sentences::open(&folder).unwrap();
    for empty in ["", " \n\t", "\u{3000}"] {
        assert_eq!(encoder.embed(empty).unwrap(), vec![0.0; 384]);
    }
    let check = |text: &str| {
        let vector = encoder.embed(text).unwrap();
        let length = cosine(&vector, &vector);
        let expected = if text.trim().is_empty() { 0.0 } else { 1.0 };
        assert!(vector.len() == 384 && (length - expected).abs() < 1e-3, "{length}");
    };
    for hostile in
        ["\0", "[CLS] [SEP] [PAD] [MASK] [UNK] ##ing", "\u{202e}\u{feff}\u{200d}", "\u{fffd}"]
    {
        check(hostile);
    }
    for part in ["a", "a ", "é\u{301}\u{301}", "語", "[MASK]", "\u{10ffff}", "\0", "'", "﷽"] {
        check(&part.repeat(64 * 1024 / part.len()));
    }
    let config =
        ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(text in "[^ \t\n\r]\\PC{0,60}|.{1,40}x|[\\x00-\\x1f]{1,9}y")| check(&text));
}

#[test]
fn a_file_that_is_not_the_model_is_refused() {
    let Some(folder) = folder() else { return };
    let copy = Copy::new(&folder);
    let model = fs::read(copy.0.path().join("model.onnx")).unwrap();
    let open = || Sentences::open(copy.0.path()).unwrap_err();

    fs::write(copy.0.path().join("model.onnx"), &model[..model.len() / 2]).unwrap();
    let refusal = open();
    assert!(matches!(&refusal, ModelError::Changed { file } if file.ends_with("model.onnx")));
    assert!(refusal.to_string().contains("docs/sentence-encoder.md"), "{refusal}");

    // The file agrees with the manifest although it is truncated, so only the runtime can refuse it.
    copy.replace("model.onnx", &model[..model.len() / 2]);
    assert!(matches!(open(), ModelError::Refused { .. }));
    copy.replace("model.onnx", b"not a model");
    assert!(matches!(open(), ModelError::Refused { .. }));

    // A model with other weights runs, but computes wrong vectors. The weights at the beginning of the file belong to
    // words.
    let mut other = model.clone();
    for byte in &mut other[1 << 20..9 << 20] {
        *byte = byte.rotate_left(3);
    }
    copy.replace("model.onnx", &other);
    let refusal = open();
    assert!(matches!(&refusal, ModelError::WrongVectors { .. }), "{refusal}");

    copy.replace("model.onnx", &model);
    copy.replace("tokenizer.json", b"{}");
    assert!(matches!(open(), ModelError::Refused { .. }));
}

#[test]
fn a_refusal_is_an_error_of_the_index() {
    let refusal = EmbedError::from(Sentences::open(Path::new("/nowhere")).unwrap_err());
    assert!(refusal.to_string().contains("has no model"), "{refusal}");
}
