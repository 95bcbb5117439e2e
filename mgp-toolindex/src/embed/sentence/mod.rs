//! A sentence encoder: fastembed with onnxruntime, both model and library from files (MGP §16.4).
//!
//! Nothing of it is in memory before [`Sentences::open`]. Every fault of the files or of the machine is a
//! [`ModelError`] that names the remedy; the index continues with the embedder it has.

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
