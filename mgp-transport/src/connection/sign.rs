//! Requests that are let in where nothing else is: for a sign of life, and what an overloaded server is told (MGP §11.3, §11.4).
//!
//! Applies to: inbound.

use mgp_types::method::{HealthPing, HealthStatusGet, LifecycleShutdown, Ping, Request as _};
use mgp_types::service::Method;

/// The longest of them that is let in beyond a bound.
pub(crate) const SIGN_BYTES: usize = 4 * 1024;

/// How many of them may run beyond the bound of a connection.
const PLACES: usize = 16;

/// Whether a request asks for a sign of life.
pub(crate) fn asks_for_life(method: &Method) -> bool {
    matches!(method.as_str(), Ping::METHOD | HealthPing::METHOD)
}

/// How many requests may run beyond the bound of a connection for one of this method and size to be let in.
pub(super) fn places_beyond(method: &Method, size: usize) -> usize {
    match method.as_str() {
        _ if size > SIGN_BYTES => 0,
        Ping::METHOD | HealthPing::METHOD => PLACES,
        // For those who look after the server; they may take a while, and must leave room for pings.
        HealthStatusGet::METHOD | LifecycleShutdown::METHOD => PLACES / 2,
        _ => 0,
    }
}
