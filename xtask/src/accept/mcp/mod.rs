//! The checks of MCP over HTTP.

mod wire;

pub(super) use wire::http_wire;
