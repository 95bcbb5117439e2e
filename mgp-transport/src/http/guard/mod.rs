//! Fetching documents whose URLs another party chose (MCP authorization, SSRF).

mod address;
mod fetch;

pub use self::address::{ForbiddenAddress, check_address};
pub use self::fetch::GuardedFetch;
