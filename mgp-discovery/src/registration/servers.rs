//! The interface of registrations to the servers (MGP §15.4, §15.5).

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

/// Starts, drains and removes the servers of registrations.
///
/// Each future may be dropped at any point, and each function may be called again for work that is already done:
/// work is resumed this way after a crash.
pub trait ServerRunner: ServerCatalog + 'static {
    /// Returns whether the configuration has an entry with this id, even a faulty one, or the id is reserved.
    ///
    /// Must read a snapshot and never wait.
    fn is_configured(&self, server: &ServerId) -> bool;

    /// Returns the programs and variables that callers who are not operators may name, besides the default ones.
    fn allow_list(&self) -> RegistrationAllowList {
        RegistrationAllowList::default()
    }

    /// Finds one version of a server in the registry of the kernel, or its latest; the error is the reason for the
    /// caller.
    fn published(
        &self,
        _name: &str,
        _version: Option<&str>,
    ) -> BoxFuture<'static, Result<PublishedEntry, String>> {
        Box::pin(async { Err("this kernel has no registry".to_owned()) })
    }

    /// Starts a registered server. The future completes once the server is connected, or once it is known to start
    /// with its first call.
    ///
    /// When this function returns its future, the server must already be known, even before the future is polled.
    /// Before each start of its process, restarts included, the implementation must call
    /// [`ApprovedRegistration::launch`] for the program. An existing server with that id is replaced.
    fn start(&self, server: ApprovedRegistration) -> BoxFuture<'static, Result<(), RpcError>>;

    /// Refuses new calls to a server, waits for running calls up to a time limit, then stops it.
    fn drain(&self, server: &ServerId, within: Duration) -> BoxFuture<'static, ()>;

    /// Removes a server that does not run: its tools, what was learnt about them, access, permissions, pins.
    ///
    /// Called after a drain, and before an id is given to a server that an agent registered.
    /// A failed removal is tried again later.
    fn remove(&self, server: &ServerId) -> BoxFuture<'static, Result<(), RpcError>>;
}

/// A registered server that is approved to run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ApprovedRegistration {
    /// The server as an entry of the configuration; [`launch`](Self::launch) returns the program.
    pub server: ServerConfig,
    /// The permissions that the server never gets, whatever else grants them.
    pub denied: Vec<Permission>,
    /// The principal who registered it, without its authority.
    pub created_by: Principal,
    pub(super) records: Weak<RegistrationState>,
}

impl ApprovedRegistration {
    /// Returns the server's id.
    #[must_use]
    pub fn id(&self) -> &ServerId {
        &self.server.id
    }

    /// Returns whether the server must not run, because it waits for another review or is not approved at all.
    ///
    /// Reads a snapshot and never waits.
    #[must_use]
    pub fn is_held(&self) -> bool {
        let stored = self.records.upgrade().and_then(|records| records.stored(self.id()));
        !stored.is_some_and(|stored| stored.record.is_approved())
    }

    /// Returns the program to run: exactly the approved one, or an error.
    ///
    /// # Errors
    /// [`DiscoveryError::Registration`] if the files differ from the approved ones, for which an operator is then asked, if
    /// one cannot be read, or if the server was deregistered meanwhile.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether an operator is asked.
    pub async fn launch(&self) -> Result<ExpandedServer, DiscoveryError> {
        RegistrationState::launch(&self.records, self.id()).await
    }
}

/// A judge of the code of sandboxed servers, called before an operator is asked (MGP §7, §15.4).
///
/// Implement it with `#[async_trait]` of the crate of that name.
#[async_trait]
pub trait CodeJudge: Send + Sync + 'static {
    /// Judges a script at the validation level `strict`.
    ///
    /// # Errors
    /// An error means that the script could not be judged; it then counts as not accepted.
    async fn judge(&self, script: JudgedScript) -> Result<CodeVerdict, RpcError>;
}

/// A script to judge.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JudgedScript {
    /// The server that runs it.
    pub server: ServerId,
    /// The name of the program that runs the script, without folder and version, e.g. `python`.
    pub language: String,
    /// The text.
    pub text: String,
}

/// The verdict of a judge.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CodeVerdict {
    /// The script may be registered.
    Accepted,
    /// The script may not be registered; the broken rules, and those that it must follow (§7.4).
    Rejected(Box<CodeRejection>),
}
