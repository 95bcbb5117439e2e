//! Requests that an overloaded connection still accepts: pings, and requests for health and
//! shutdown (MGP §11.3, §11.4).

use mgp_types::method::{HealthPing, HealthStatusGet, LifecycleShutdown, Ping, Request as _};
use mgp_types::service::Method;

use super::running::CALL_COST;

/// The maximum size, in bytes, of a request that is allowed to run beyond the limit of running calls.
pub(crate) const MAX_PING_BYTES: usize = 4 * 1024;

/// The maximum number of requests that run beyond a connection's limit of running calls.
const MAX_EXTRA_CALLS: usize = 16;

/// Returns whether a request is a ping of MCP or of MGP.
pub(crate) fn is_ping(method: &Method) -> bool {
    matches!(method.as_str(), Ping::METHOD | HealthPing::METHOD)
}

/// Returns whether a request is a ping of at most [`MAX_PING_BYTES`]; `size` includes [`CALL_COST`].
pub(super) fn is_light_ping(method: &Method, size: usize) -> bool {
    is_light(size) && is_ping(method)
}

/// Returns by how much the limit of running calls is raised for a request of this method and size, which includes
/// [`CALL_COST`]; 0 for most requests.
pub(super) fn extra_places(method: &Method, size: usize) -> usize {
    match method.as_str() {
        _ if !is_light(size) => 0,
        Ping::METHOD | HealthPing::METHOD => MAX_EXTRA_CALLS,
        // Requests for health or shutdown can run for a while, so they get only half of the extra places. The other
        // half stays free for pings.
        HealthStatusGet::METHOD | LifecycleShutdown::METHOD => MAX_EXTRA_CALLS / 2,
        _ => 0,
    }
}

fn is_light(size: usize) -> bool {
    size <= MAX_PING_BYTES + CALL_COST
}
