//! What the registry must know of the servers, whoever runs them (MGP §15.2).
//!
//! Applies to: inbound.

use mgp_types::mgp::{Permission, ServerSummary};

/// The servers as whoever runs them knows them.
pub trait Fleet: Send + Sync {
    /// All servers in their order, those that were configured and never started included.
    ///
    /// It reads a snapshot and never waits.
    fn known(&self) -> Vec<Known>;
}

/// A server of a fleet.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Known {
    /// What a list says of it, with all its tools.
    pub summary: ServerSummary,
    /// The permissions it needs.
    pub permissions: Vec<Permission>,
}

impl Known {
    /// A server that needs some permissions.
    #[must_use]
    pub fn new(summary: ServerSummary, permissions: impl IntoIterator<Item = Permission>) -> Self {
        Self { summary, permissions: permissions.into_iter().collect() }
    }
}
