//! Requests for a sign of life, which are let in where nothing else is (MGP §11.3).
//!
//! Applies to: inbound.

use mgp_types::method::{HealthPing, Ping, Request as _};
use mgp_types::service::Method;

/// The longest of them that is let in beyond a bound.
pub(crate) const SIGN_BYTES: usize = 4 * 1024;

/// Whether a request asks for a sign of life.
pub(crate) fn asks_for_life(method: &Method) -> bool {
    matches!(method.as_str(), Ping::METHOD | HealthPing::METHOD)
}
