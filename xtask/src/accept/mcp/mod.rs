//! The checks of MCP over HTTP.

mod faults;
mod wire;

pub(super) use faults::faults;
pub(super) use wire::http_wire;
