//! Why there is no kernel.
//!
//! Applies to: both.

use mgp_security::FolderError;
use mgp_toolindex::IndexError;
use mgp_types::RpcError;
use mgp_types::store::StoreError;

/// Why a kernel could not be put together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// The state folder cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The state cannot be read.
    #[error("the state cannot be used: {0}")]
    Store(#[from] StoreError),
    /// The tool index cannot be opened.
    #[error("the tool index cannot be opened: {0}")]
    Index(#[from] IndexError),
    /// A server cannot be set up.
    #[error("the server `{server}` cannot be set up: {why}")]
    Server {
        /// Its id.
        server: String,
        /// What is wrong with it.
        why: mgp_client_sdk::Error,
    },
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] mgp_discovery::Error),
    /// There are no files to read.
    #[error("this kernel was not configured by files; build it with `sources`")]
    NoSources,
    /// What another configuration says of policies or groups is not in force.
    #[error("the configuration is not in force: {}", .0.message())]
    Governed(RpcError),
    /// Kernels start each other.
    #[error(
        "{0} kernels have started each other: one has itself among its servers; take it out of the configuration"
    )]
    TooDeep(u32),
    /// What is served upstream cannot be put together.
    #[error("the kernel cannot be served: {}", .0.message())]
    Upstream(RpcError),
}
