//! The interface for starting and stopping registered servers (MGP §15.4, §15.5).

use std::sync::Weak;
use std::time::Duration;

use async_trait::async_trait;
use mgp_types::RpcError;
use mgp_types::mgp::{CodeRejection, Permission};
use mgp_types::service::{BoxFuture, Principal, ServerId};

use super::published::PublishedEntry;
use super::registrations::RegistrationState;
use crate::config::{RegistrationAllowList, ServerConfig};
use crate::error::DiscoveryError;
use crate::expand::ExpandedServer;
use crate::registry::ServerCatalog;

/// Runner that starts, drains and removes registered servers.
///
/// An implementation must allow that any future is dropped at any point. It must also allow that a function is called
/// again after its work is done, because work that a crash interrupted is repeated in this way.
pub trait ServerRunner: ServerCatalog + 'static {
    /// Returns whether the id is reserved, or the configuration has an entry with this id, including a faulty entry.
    ///
    /// Must read a snapshot and never wait.
    fn is_configured(&self, server: &ServerId) -> bool;

    /// Returns the programs and variables that callers who are not operators may use, in addition to the built-in
    /// programs and variables.
    fn allow_list(&self) -> RegistrationAllowList {
        RegistrationAllowList::default()
    }

    /// Finds a version of a server in the kernel's registry, or the latest version if none is given. The error is the
    /// reason of the failure, in words for the caller.
    fn published(
        &self,
        _name: &str,
        _version: Option<&str>,
    ) -> BoxFuture<'static, Result<PublishedEntry, String>> {
        Box::pin(async { Err("this kernel has no registry".to_owned()) })
    }

    /// Starts a registered server. The future completes once the server is connected, or once it is certain that the
    /// server starts at its first call.
    ///
    /// When this function returns its future, the implementation must already know the server, even before the future
    /// is polled. Before each start of the process, including restarts, the implementation must get the program from
    /// [`ApprovedRegistration::launch`]. An existing server with that id is replaced.
    fn start(&self, server: ApprovedRegistration) -> BoxFuture<'static, Result<(), RpcError>>;

    /// Refuses new calls to a server, waits for running calls up to a time limit, then stops it.
    fn drain(&self, server: &ServerId, within: Duration) -> BoxFuture<'static, ()>;

    /// Removes all state of a server that does not run: its tools, what the kernel learned about them, its access
    /// entries, permissions and pins.
    ///
    /// Called after a drain, and before the first approval of a registration. After a drain, a failed removal is tried
    /// again; before an approval, it makes the approval fail.
    fn remove(&self, server: &ServerId) -> BoxFuture<'static, Result<(), RpcError>>;
}

/// A registered server that is approved to run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ApprovedRegistration {
    /// The server as an entry of the configuration; [`launch`](Self::launch) returns the program.
    pub server: ServerConfig,
    /// The permissions that the server never gets, even if another rule grants them.
    pub denied: Vec<Permission>,
    /// The principal who registered the server, without its authority to administer.
    pub created_by: Principal,
    pub(super) records: Weak<RegistrationState>,
}

impl ApprovedRegistration {
    /// Returns the server's id.
    #[must_use]
    pub fn id(&self) -> &ServerId {
        &self.server.id
    }

    /// Returns `true` if the server must not run: it is not approved, or its files have changed and wait for a review.
    ///
    /// Reads a snapshot and never waits.
    #[must_use]
    pub fn is_held(&self) -> bool {
        let stored = self.records.upgrade().and_then(|records| records.stored(self.id()));
        !stored.is_some_and(|stored| stored.record.is_approved())
    }

    /// Returns the approved program, ready to be started; returns an error if it is not exactly as approved.
    ///
    /// # Errors
    /// [`DiscoveryError::Registration`] if the server must not run, a file or secret that it needs cannot be used, or
    /// its files differ from the approved ones; in the last case an operator is asked to approve them.
    /// [`DiscoveryError::Store`] if this request for approval cannot be stored; [`DiscoveryError::NotText`] if a path
    /// is not UTF-8.
    ///
    /// # Cancel safety
    /// If the future is dropped, it is uncertain whether an operator is asked for an approval.
    pub async fn launch(&self) -> Result<ExpandedServer, DiscoveryError> {
        RegistrationState::launch(&self.records, self.id()).await
    }
}

/// Judge that checks the code of sandboxed servers before an operator is asked for an approval (MGP §7, §15.4).
///
/// Implement it with the attribute `#[async_trait]` of the crate `async-trait`.
#[async_trait]
pub trait CodeJudge: Send + Sync + 'static {
    /// Judges a script at the validation level `strict`.
    ///
    /// # Errors
    /// The script could not be judged; it is then treated as not accepted.
    async fn judge(&self, script: JudgedScript) -> Result<CodeVerdict, RpcError>;
}

/// A script to judge.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JudgedScript {
    /// The server that runs the script.
    pub server: ServerId,
    /// The name of the program that runs the script, without folder and version, e.g. `python`.
    pub language: String,
    /// The text of the script.
    pub text: String,
}

/// The verdict of a judge.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CodeVerdict {
    /// The script may be registered.
    Accepted,
    /// The script must not be registered; the value lists the broken rules and the rules to follow (§7.4).
    Rejected(Box<CodeRejection>),
}
