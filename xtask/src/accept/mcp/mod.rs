//! The checks of MCP over HTTP.

mod faults;
mod wire;

pub(super) use faults::outside;
pub(super) use wire::http_wire;
