//! A sentence encoder: fastembed on onnxruntime. Both the model and the library are loaded from files (MGP
//! §16.4).
//!
//! [`Sentences::open`] loads them; before that they use no memory. A fault of the files or of the machine is a
//! [`ModelError`] that names the remedy; the index then continues with the embedder it has.

mod config;
mod elf;
mod error;
mod fair_mutex;
mod folder;
mod goldens;
#[cfg(feature = "hub")]
mod hub;
mod runtime;
mod sentences;
mod vector_cache;

pub use config::SentencesConfig;
pub use error::ModelError;
pub use sentences::Sentences;
