//! Failures of a sentence encoder, with the remedy (MGP §16.4).

use crate::embed::EmbedError;
use std::{
    error::Error,
    io,
    path::{Path, PathBuf},
};

/// The error of a library outside this workspace.
pub(super) type Cause = Box<dyn Error + Send + Sync>;

/// A failure to open or run a sentence encoder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The folder contains no model.
    #[error("{} has no model; make one as docs/sentence-encoder.md describes", folder.display())]
    NoModel {
        /// The path of the folder.
        folder: PathBuf,
    },
    /// The manifest is invalid, or of another version.
    #[error("{} is not a valid manifest: {reason}; make the folder again as docs/sentence-encoder.md describes", file.display())]
    Manifest {
        /// The path of the manifest.
        file: PathBuf,
        /// The error of parsing the manifest.
        #[source]
        reason: Cause,
    },
    /// A file that the manifest names does not exist.
    #[error("{} is missing; make the folder again as docs/sentence-encoder.md describes", file.display())]
    Missing {
        /// The path of the missing file.
        file: PathBuf,
    },
    /// A file of the model differs from the manifest.
    #[error("{} differs from the manifest: it was truncated or changed; make the folder again as docs/sentence-encoder.md describes", file.display())]
    Changed {
        /// The path of the changed file.
        file: PathBuf,
    },
    /// A file of the model cannot be read.
    #[error("{}: {reason}", file.display())]
    File {
        /// The path of the file.
        file: PathBuf,
        /// The error of the system.
        #[source]
        reason: io::Error,
    },
    /// The library cannot be loaded, is not onnxruntime, or is too old.
    #[error("{} cannot be used as onnxruntime (1.{} or newer): {reason}", library.display(), ort::MINOR_VERSION)]
    Library {
        /// The path of the runtime's library.
        library: PathBuf,
        /// The error of the loader.
        #[source]
        reason: Cause,
    },
    /// The runtime was loaded, but cannot be started.
    #[error("onnxruntime does not start: {reason}; only one part of a program can start it")]
    Runtime {
        /// The error of the runtime.
        #[source]
        reason: Cause,
    },
    /// The runtime does not accept the model or its tokenizer.
    #[error("the model `{model}` cannot be loaded: {reason}")]
    Refused {
        /// The name of the model.
        model: String,
        /// The error of the runtime.
        #[source]
        reason: Cause,
    },
    /// The encoder runs, but computes other vectors for some texts than the known vectors of the model.
    #[error(
        "the model `{model}` has a cosine of {cosine:.3} to the known vector of {text:?}, less than {min}; make its folder again as docs/sentence-encoder.md describes"
    )]
    WrongVectors {
        /// The name of the model.
        model: String,
        /// The text whose vector differs.
        text: String,
        /// The cosine between the computed and the known vector.
        cosine: f32,
        /// The minimum cosine of a working model.
        min: f32,
    },
    /// The encoder failed on a text.
    #[error("the model `{model}` failed: {reason}")]
    Failed {
        /// The name of the model.
        model: String,
        /// The error of the encoder.
        #[source]
        reason: Cause,
    },
    /// The library `fastembed` has no model of this name.
    #[error("fastembed has no model `{name}`; use one of {known}")]
    NoSuchModel {
        /// The unknown name.
        name: String,
        /// The names of all known models, for the message.
        known: String,
    },
}

impl ModelError {
    /// Maps an I/O error to [`Self::Missing`] or [`Self::File`].
    pub(super) fn read(file: &Path) -> impl FnOnce(io::Error) -> Self {
        move |reason| match reason.kind() {
            io::ErrorKind::NotFound => Self::Missing { file: file.to_owned() },
            _ => Self::file(file)(reason),
        }
    }

    pub(super) fn file(file: &Path) -> impl FnOnce(io::Error) -> Self {
        move |reason| Self::File { file: file.to_owned(), reason }
    }

    pub(super) fn failed(model: &str) -> impl FnOnce(Cause) -> Self {
        move |reason| Self::Failed { model: model.to_owned(), reason }
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
