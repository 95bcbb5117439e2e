//! Manifests of servers, and registries of servers that could be added (proposals 1 and 13).

mod file;
mod registry;

pub use file::{ManifestError, read_manifest};
pub use registry::{RegistryServer, read_registry};
