//! Write Model General Protocol and MCP clients.
