//! Remembers whose instances (own processes or sessions) of a server were stopped together with the server.
//!
//! Usually the next call of an owner starts the owner's instance again. But an owner that is subscribed to resources or
//! events may make no call. So the kernel itself starts the instances of these owners when the server is started again,
//! or when a reload replaces it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use mgp_types::service::{Principal, ServerId};
use mgp_types::sync::Mutex;

/// The owners, by server. They are removed when the server is started again; those of a removed server stay, because
/// they may still be subscribed when the server is added again. This handle is cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct StoppedOwners(Arc<Mutex<HashMap<ServerId, HashSet<Principal>>>>);

impl StoppedOwners {
    /// Records the owners of instances of a server that are being stopped.
    pub(super) fn add(&self, server: &ServerId, owners: Vec<Principal>) {
        if !owners.is_empty() {
            self.0.lock().entry(server.clone()).or_default().extend(owners);
        }
    }

    /// Removes and returns the recorded owners of instances of a server.
    pub(super) fn take(&self, server: &ServerId) -> HashSet<Principal> {
        self.0.lock().remove(server).unwrap_or_default()
    }
}
