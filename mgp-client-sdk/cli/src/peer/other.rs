//! The process at the other end of the local socket on systems without `/proc`, where at most its process id is known.

use mgp_types::service::PeerProcess;

use super::Place;
use crate::socket::{AsyncStream, process_id};

/// The process that opened a connection to the local socket.
#[derive(Debug)]
pub(crate) struct Peer(Option<PeerProcess>);

/// The known hosts; on this system the kernel cannot distinguish them.
#[derive(Debug, Default)]
pub(crate) struct Hosts(());

impl Peer {
    /// Identifies the process that opened a connection.
    pub(crate) fn of(stream: &AsyncStream) -> Self {
        Self(process_id(stream).map(PeerProcess::new))
    }

    /// Returns the process as the audit log records it; `None` if it is not known.
    pub(crate) fn process(&self) -> Option<&PeerProcess> {
        self.0.as_ref()
    }
}

impl Hosts {
    /// Returns the place of a process: on this system every process of the user counts as outside of hosts and servers.
    pub(crate) fn place(&self, _: &Peer) -> Place {
        super::own_place()
    }

    pub(crate) fn admit_agent(
        &self,
        _: &Peer,
        _: &str,
        _: bool,
        _: impl Fn(&str) -> bool,
    ) -> Result<(), String> {
        Ok(())
    }

    /// Does nothing, because on this system the kernel cannot distinguish hosts.
    pub(crate) fn admit_own_host(&self, _: &str) {}
}
