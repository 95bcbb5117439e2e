//! The handle of a kernel.
//!
//! Applies to: both.

use std::fmt;
use std::sync::Arc;

use mgp_discovery::Registrations;
use mgp_security::Governance;
use mgp_server_sdk::Server;
use mgp_toolindex::ToolIndex;
use mgp_types::mgp::{KernelLogLine, KernelServer, ServerState, ShutdownReason};
use mgp_types::service::ServerId;

use super::admin;
use super::builder::KernelBuilder;
use super::current::Current;
use super::fleet::Fleet;
use super::host::Host;
use super::switch::Switch;
use super::upstream;

/// All servers of a person behind one; a cheap handle.
///
/// ```
/// use mgp_kernel::Kernel;
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
    pub(super) current: Current,
}

impl Kernel {
    /// Begins to put one together.
    pub fn builder() -> KernelBuilder {
        KernelBuilder::default()
    }

    /// A server that answers with what the kernel has: serve it on stdio, at a URL, or over any pair of streams.
    pub fn server(&self) -> Server {
        upstream::server(&self.0.switch, admin::router(self))
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

    /// The servers that are registered while it runs, and those that wait for an operator.
    #[must_use]
    pub fn registrations(&self) -> &Registrations {
        &self.0.switch.parts().registrations
    }

    /// Its servers, by their ids, with all that an operator may know of them.
    #[must_use]
    pub fn servers(&self) -> Vec<KernelServer> {
        self.all_described()
    }

    /// Starts a server unless it runs, and gives its state once it is there or did not come; none for one nobody knows.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it starting.
    pub async fn start_server(&self, id: &ServerId) -> Option<ServerState> {
        let node = self.0.fleet.get(id.as_str())?;
        Some(Fleet::start(&node, None).await)
    }

    /// Lets a server finish and stops it with its whole tree; no call starts it until it is
    /// [started](Self::start_server) again.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it stopping.
    pub async fn stop_server(&self, id: &ServerId) -> Option<ServerState> {
        Some(Fleet::halt(&self.0.fleet.get(id.as_str())?, None).await)
    }

    /// Lets a server finish, and starts it anew; earlier failures are forgotten.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it to that.
    pub async fn restart_server(&self, id: &ServerId) -> Option<ServerState> {
        Some(Fleet::renew(&self.0.fleet.get(id.as_str())?, None).await)
    }

    /// The last lines a server wrote to its standard error, the oldest first: 500 at most are kept, of 64 KiB.
    #[must_use]
    pub fn server_log(&self, id: &ServerId) -> Option<Vec<KernelLogLine>> {
        Some(self.0.fleet.get(id.as_str())?.diary().lines(usize::MAX))
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
