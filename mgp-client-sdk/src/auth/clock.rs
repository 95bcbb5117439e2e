//! The time that tokens and statements are dated by.
//!
//! Applies to: outbound.

use std::time::{SystemTime, UNIX_EPOCH};

/// The second since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
