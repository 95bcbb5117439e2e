//! What a server hears of its permissions: by requests, with each call, and by asking (MGP §3.5, §3.6; checklist D11).
//!
//! Applies to: inbound.

mod carried;
mod endpoints;

pub(crate) use carried::{bring, bring_or_ask, says_what_stands};
pub(crate) use endpoints::endpoints;
