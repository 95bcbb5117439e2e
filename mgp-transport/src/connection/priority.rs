//! Requests that an overloaded connection still accepts: pings, and requests for health and
//! shutdown (MGP §11.3, §11.4).

use mgp_types::method::{HealthPing, HealthStatusGet, LifecycleShutdown, Ping, Request as _};
use mgp_types::service::Method;

/// The maximum size, in bytes, of a request that is allowed to run beyond the limit of running calls.
pub(crate) const MAX_PING_BYTES: usize = 4 * 1024;

/// The maximum number of requests that run beyond a connection's limit of running calls.
const MAX_EXTRA_CALLS: usize = 16;

/// Returns whether a request is a ping of MCP or of MGP.
pub(crate) fn is_ping(method: &Method) -> bool {
    matches!(method.as_str(), Ping::METHOD | HealthPing::METHOD)
}

/// Returns by how much the limit of running calls is raised for a request of this method and size; 0 for most requests.
pub(super) fn extra_places(method: &Method, size: usize) -> usize {
    match method.as_str() {
        _ if size > MAX_PING_BYTES => 0,
        Ping::METHOD | HealthPing::METHOD => MAX_EXTRA_CALLS,
        // Requests for health or shutdown can run for a while, so they get only half of the extra places. The others
        // stay free for pings.
        HealthStatusGet::METHOD | LifecycleShutdown::METHOD => MAX_EXTRA_CALLS / 2,
        _ => 0,
    }
}
