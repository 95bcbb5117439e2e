//! Downloads from URLs that another party chose, without reaching private addresses (SSRF; MCP authorization).

mod address;
mod fetch;

pub use self::address::{ForbiddenAddress, check_address};
pub(super) use self::fetch::Guard;
pub use self::fetch::GuardedFetch;
