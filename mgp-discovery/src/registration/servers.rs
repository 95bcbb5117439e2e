//! What registration needs of whoever runs the servers (MGP §15.4, §15.5).
//!
//! Applies to: inbound.

use std::sync::Weak;
use std::time::Duration;

use mgp_types::RpcError;
use mgp_types::mgp::Permission;
use mgp_types::service::{BoxFuture, Principal, ServerId};

use super::book::Inner;
use crate::config::Server;
use crate::error::Error;
use crate::expand::ExpandedServer;
use crate::registry::Fleet;

/// The servers, which registrations come to and go from.
///
/// Each of the futures may be dropped at any point, and each function may be called again for what is done already:
/// that is how work is taken up after a crash.
pub trait Servers: Fleet + 'static {
    /// Whether an id is the configuration's, broken entries included, or one that nobody may have.
    ///
    /// It reads a snapshot and never waits.
    fn configured(&self, server: &ServerId) -> bool;

    /// Begins to run a registered server, and answers once it is connected, or known and started with its first call.
    ///
    /// Where no server of that id is there, it is there once the future is returned: whoever calls it finds it.
    /// Before each start of its process, restarts included, it asks [`Approved::launch`] what to run.
    /// A server of that id which is there from before is replaced.
    fn start(&self, server: Approved) -> BoxFuture<'static, Result<(), RpcError>>;

    /// Lets no new call to a server, lets those that run end within a time, then stops it.
    fn drain(&self, server: &ServerId, within: Duration) -> BoxFuture<'static, ()>;

    /// Forgets a server that does not run: its tools, what they learnt, access, permissions, pins.
    ///
    /// It is called after a drain, and before an id is given to a server that an agent registered.
    /// What could not be forgotten is tried again later.
    fn remove(&self, server: &ServerId) -> BoxFuture<'static, Result<(), RpcError>>;
}

/// A registered server that may run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Approved {
    /// The server as an entry of the configuration would say it; what is run, [`launch`](Self::launch) says.
    pub server: Server,
    /// What it never gets, whatever else grants it (checklist C33).
    pub denied: Vec<Permission>,
    /// Who registered it, without the authority they may have.
    pub created_by: Principal,
    pub(super) book: Weak<Inner>,
}

impl Approved {
    /// The server's id.
    #[must_use]
    pub fn id(&self) -> &ServerId {
        &self.server.id
    }

    /// Whether it runs no more before an operator has looked at it again, or at all.
    ///
    /// It reads a snapshot and never waits.
    #[must_use]
    pub fn is_held(&self) -> bool {
        let kept = self.book.upgrade().and_then(|book| book.kept(self.id()));
        !kept.is_some_and(|kept| kept.record.is_approved())
    }

    /// What is to be run: exactly what was approved, or nothing.
    ///
    /// # Errors
    /// [`Error::Registration`] when the files are others than those approved, which an operator then is asked about,
    /// when one cannot be read, or when the server was deregistered meanwhile.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether an operator is asked.
    pub async fn launch(&self) -> Result<ExpandedServer, Error> {
        Inner::launch(&self.book, self.id()).await
    }
}

/// Judges the code of sandboxed servers before an operator is asked (MGP §7, §15.4).
pub trait Judge: Send + Sync + 'static {
    /// Judges a script at the level `strict`.
    ///
    /// # Errors
    /// It could not be judged; that counts as not accepted.
    fn judge(&self, script: Script) -> BoxFuture<'static, Result<Verdict, RpcError>>;
}

/// A script that is to be judged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Script {
    /// The server it is of.
    pub server: ServerId,
    /// The program that runs it, without folder and version: `python`.
    pub language: String,
    /// Its text.
    pub text: String,
}

/// What a judge says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It may be registered.
    Accepted,
    /// It may not; each rule that was broken.
    Rejected(Vec<String>),
}
