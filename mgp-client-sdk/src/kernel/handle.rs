//! The handle of a kernel.
//!
//! Applies to: both.

use std::fmt;
use std::sync::Arc;

use mgp_security::Governance;
use mgp_server_sdk::Server;
use mgp_toolindex::ToolIndex;
use mgp_types::mgp::ShutdownReason;

use super::builder::KernelBuilder;
use super::fleet::Fleet;
use super::host::Host;
use super::switch::Switch;
use super::upstream;

/// All servers of a person behind one; a cheap handle.
///
/// ```
/// use mgp_client_sdk::Kernel;
/// use mgp_discovery::Config;
/// use mgp_types::service::{Principal, mock};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let kernel = Kernel::builder().config(Config::default()).build().await.unwrap();
/// let stack = kernel.server().into_stack().unwrap();
/// # drop(stack);
/// # kernel.stop().await;
/// # });
/// ```
#[derive(Clone)]
pub struct Kernel(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) fleet: Fleet,
    pub(super) switch: Switch,
    pub(super) host: Host,
}

impl Kernel {
    /// Begins to put one together.
    pub fn builder() -> KernelBuilder {
        KernelBuilder::default()
    }

    /// A server that answers with what the kernel has: serve it on stdio, at a URL, or over any pair of streams.
    pub fn server(&self) -> Server {
        upstream::server(&self.0.switch)
    }

    /// Who may do what.
    #[must_use]
    pub fn governance(&self) -> &Governance {
        &self.0.fleet.ground().governance
    }

    /// The tools of all servers.
    #[must_use]
    pub fn index(&self) -> &ToolIndex {
        &self.0.fleet.ground().index
    }

    /// Stops all servers, each with its whole tree, once what runs there is finished.
    ///
    /// # Cancel safety
    /// Dropping the future leaves them stopping.
    pub async fn stop(&self) {
        self.0.fleet.stop(ShutdownReason::OperatorRequest).await;
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("fleet", &self.0.fleet).finish_non_exhaustive()
    }
}
