//! The permissions that servers declare as a whole in their handshakes (MGP §3.4).
//!
//! A server that declares a permission, and no tool that needs it, may use it in any tool.

use std::sync::Arc;

use mgp_types::mgp::Permission;
use mgp_types::service::ServerId;
use mgp_types::sync::RwLock;
use rustc_hash::FxHashMap;

/// The number of servers whose declarations are kept; further ones are not started by one kernel.
const MAX_SERVERS: usize = 4096;

/// The declarations of servers, as of their last handshakes.
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

    /// Returns whether a server declares any permission.
    pub(super) fn any(&self, server: Option<&ServerId>) -> bool {
        server.is_some_and(|server| self.0.read().contains_key(server))
    }

    /// Returns the declaration of a server.
    pub(super) fn of(&self, server: Option<&ServerId>) -> Option<Arc<[Permission]>> {
        self.0.read().get(server?).map(Arc::clone)
    }
}
