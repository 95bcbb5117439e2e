//! Imports for most clients.

pub use crate::{Client, ClientHandler, Error, StreamItem, TestClient, ToolResult};
pub use mgp_lifecycle::EraChoice;
pub use mgp_transport::ChildCommand;
pub use mgp_types::mcp::{CallToolResult, ContentBlock};
pub use mgp_types::{ErrorCode, RpcError};
