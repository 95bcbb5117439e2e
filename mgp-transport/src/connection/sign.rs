//! Requests that are let in where nothing else is: for a sign of life, and what an overloaded server is told (MGP §11.3, §11.4).
//!
//! Applies to: inbound.

use mgp_types::method::{HealthPing, HealthStatusGet, LifecycleShutdown, Ping, Request as _};
use mgp_types::service::Method;

/// The longest of them that is let in beyond a bound.
pub(crate) const SIGN_BYTES: usize = 4 * 1024;

/// Whether a request asks for a sign of life.
pub(crate) fn asks_for_life(method: &Method) -> bool {
    matches!(method.as_str(), Ping::METHOD | HealthPing::METHOD)
}

/// Whether a request is for those who look after the server: it is let in at the bound, in its turn.
pub(crate) fn looks_after(method: &Method) -> bool {
    matches!(method.as_str(), HealthStatusGet::METHOD | LifecycleShutdown::METHOD)
}
