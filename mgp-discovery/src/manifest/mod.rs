//! Manifests of servers, and files with registry entries of servers that the kernel can recommend (two extensions
//! beyond MGP).

mod file;
mod registry;

pub use file::{ManifestError, read_manifest};
pub use registry::{RegistryServer, read_registry};
