//! Write Model General Protocol and MCP servers.
