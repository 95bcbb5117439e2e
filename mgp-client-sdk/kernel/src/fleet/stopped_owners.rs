//! The owners of instances that were stopped together with their server.
//!
//! When the server is started again, or is replaced by a reload, the instances of those that are subscribed to
//! resources or events are started again, because there may be no further call that would do so.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use mgp_types::service::{Principal, ServerId};
use mgp_types::sync::Mutex;

/// The owners by server, until the server is started again. This handle is cheap to clone.
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
