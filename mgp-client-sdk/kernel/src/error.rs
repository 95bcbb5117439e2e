//! Errors of building and configuring a kernel.

use mgp_security::FolderError;
use mgp_toolindex::IndexError;
use mgp_types::RpcError;
use mgp_types::store::StoreError;

/// A failure to build or configure a kernel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// The state folder of the kernel cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The stored state of the kernel cannot be read or written.
    #[error("the state cannot be used: {0}")]
    Store(#[from] StoreError),
    /// The tool index cannot be opened or changed.
    #[error("the tool index cannot be used: {0}")]
    Index(#[from] IndexError),
    /// A server of the kernel cannot be set up.
    #[error("the server `{server}` cannot be set up: {why}")]
    Server {
        /// The id of the server.
        server: String,
        /// The reason why the server cannot be set up.
        why: mgp_client_sdk::Error,
    },
    /// A sink of the audit log cannot be set up.
    #[error("the sink `kernel.audit.sinks.{sink}` cannot be set up: {why}")]
    Sink {
        /// The name of the sink of the audit log.
        sink: String,
        /// The reason why the sink cannot be used, with the remedy.
        why: String,
    },
    /// The telemetry collector in the configuration cannot be used, for this reason.
    #[error("`kernel.telemetry` cannot be used: {0}")]
    Telemetry(String),
    /// The kernel cannot listen on the address that the configuration sets for data references.
    #[error("`kernel.references.listen`: {0}; use a free port of this machine")]
    References(#[source] std::io::Error),
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] mgp_discovery::DiscoveryError),
    /// The kernel was not built with configuration files, so it has none to reload.
    #[error("this kernel was not configured by files; build it with `sources`")]
    NoSources,
    /// The kernel could not apply the policies or groups of a new configuration.
    #[error("the configuration could not be applied: {}", .0.message())]
    Governed(RpcError),
    /// Too many kernels have started each other, most likely in a circle.
    #[error(
        "{0} kernels have started each other: one has itself among its servers; remove it from the configuration"
    )]
    TooDeep(u32),
}
