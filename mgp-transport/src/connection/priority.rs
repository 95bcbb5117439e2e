//! Requests that an overloaded connection still accepts: pings, health and shutdown (MGP §11.3, §11.4).

use mgp_types::method::{HealthPing, HealthStatusGet, LifecycleShutdown, Ping, Request as _};
use mgp_types::service::Method;

/// Maximum size, in bytes, of a request that may exceed the limit of running calls.
pub(crate) const MAX_PING_BYTES: usize = 4 * 1024;

/// Requests that may run beyond the bound of a connection.
const MAX_EXTRA_CALLS: usize = 16;

/// Returns whether a request is a ping, of MCP or MGP.
pub(crate) fn is_ping(method: &Method) -> bool {
    matches!(method.as_str(), Ping::METHOD | HealthPing::METHOD)
}

/// Returns by how many a request of this method and size may exceed the limit of running calls; 0 for most.
pub(super) fn extra_places(method: &Method, size: usize) -> usize {
    match method.as_str() {
        _ if size > MAX_PING_BYTES => 0,
        Ping::METHOD | HealthPing::METHOD => MAX_EXTRA_CALLS,
        // Operators send these. They may take a while, so they must leave room for pings.
        HealthStatusGet::METHOD | LifecycleShutdown::METHOD => MAX_EXTRA_CALLS / 2,
        _ => 0,
    }
}
