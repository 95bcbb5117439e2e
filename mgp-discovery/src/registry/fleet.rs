//! The servers that the registry lists (MGP §15.2).

use mgp_types::mgp::{Permission, ServerSummary};

/// Provider of the servers that the registry lists.
pub trait ServerCatalog: Send + Sync {
    /// Returns all servers in the order of the list, including configured servers that were never started.
    ///
    /// Reads a snapshot and never waits.
    fn known(&self) -> Vec<KnownServer>;
}

/// A server that the registry knows.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct KnownServer {
    /// The summary shown in lists, with all tools of the server.
    pub summary: ServerSummary,
    /// The permissions that the server needs.
    pub permissions: Vec<Permission>,
}

impl KnownServer {
    /// Creates the description of a server that needs these permissions.
    #[must_use]
    pub fn new(summary: ServerSummary, permissions: impl IntoIterator<Item = Permission>) -> Self {
        Self { summary, permissions: permissions.into_iter().collect() }
    }
}
