//! What a client needs in scope.
//!
//! Applies to: outbound.

pub use crate::{Client, ClientHandler, Error, Streamed, TestClient, ToolResult};
pub use mgp_lifecycle::EraChoice;
pub use mgp_transport::ChildCommand;
pub use mgp_types::mcp::{CallToolResult, ContentBlock};
pub use mgp_types::{ErrorCode, RpcError};
