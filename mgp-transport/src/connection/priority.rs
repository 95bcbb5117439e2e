//! Requests that an overloaded connection still accepts: pings, health and shutdown (MGP §11.3, §11.4).

use mgp_types::method::{HealthPing, HealthStatusGet, LifecycleShutdown, Ping, Request as _};
use mgp_types::service::Method;

/// Maximum size of a request that is accepted beyond a bound.
pub(crate) const MAX_PING_BYTES: usize = 4 * 1024;

/// Requests that may run beyond the bound of a connection.
const MAX_EXTRA_CALLS: usize = 16;

/// Returns whether a request is a ping, of MCP or MGP.
pub(crate) fn is_ping(method: &Method) -> bool {
    matches!(method.as_str(), Ping::METHOD | HealthPing::METHOD)
}

/// Returns how many requests may run beyond the bound of a connection for one of this method and size to be accepted.
pub(super) fn extra_places(method: &Method, size: usize) -> usize {
    match method.as_str() {
        _ if size > MAX_PING_BYTES => 0,
        Ping::METHOD | HealthPing::METHOD => MAX_EXTRA_CALLS,
        // For operators; these may take a while and must leave room for pings.
        HealthStatusGet::METHOD | LifecycleShutdown::METHOD => MAX_EXTRA_CALLS / 2,
        _ => 0,
    }
}
