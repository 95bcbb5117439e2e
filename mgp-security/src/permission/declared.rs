//! The permissions that servers declare in their handshakes, for all of their tools together (MGP §3.4).
//!
//! If a server declares a permission that none of its tools declares, any of its tools might use that permission, so
//! every call of the server needs it.

use std::sync::Arc;

use mgp_types::mgp::Permission;
use mgp_types::service::ServerId;
use mgp_types::sync::RwLock;
use rustc_hash::FxHashMap;

/// The maximum number of servers whose declarations are stored; it is far above the number that one kernel runs.
const MAX_SERVERS: usize = 4096;

/// The permissions that each server declared in its last handshake.
#[derive(Debug, Default)]
pub(super) struct DeclaredPermissions(RwLock<FxHashMap<ServerId, Arc<[Permission]>>>);

impl DeclaredPermissions {
    /// Replaces the declaration of a server.
    pub(super) fn set(&self, server: &ServerId, permissions: &[Permission]) {
        let permissions = Permission::canonical(permissions);
        let mut servers = self.0.write();
        if permissions.is_empty() {
            servers.remove(server);
        } else if servers.contains_key(server) || servers.len() < MAX_SERVERS {
            servers.insert(server.clone(), permissions.into());
        }
    }

    pub(super) fn any(&self, server: Option<&ServerId>) -> bool {
        server.is_some_and(|server| self.0.read().contains_key(server))
    }

    pub(super) fn of(&self, server: Option<&ServerId>) -> Option<Arc<[Permission]>> {
        self.0.read().get(server?).map(Arc::clone)
    }
}
