//! A sentence encoder: fastembed on onnxruntime. Both the model and the library are loaded from files (MGP
//! §16.4).
//!
//! [`Sentences::open`] loads them; until then they use no memory. If a file is damaged or the machine is unsuitable, it
//! returns a [`ModelError`] with the remedy, and the index keeps its current embedder.

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
