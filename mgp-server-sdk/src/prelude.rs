//! The names that most servers need.

pub use crate::{Args, ContextExt, Elicited, Json, ServeError, Server, State, Tool, ToolError};
#[cfg(feature = "macros")]
pub use mgp_macros::{tool, tools};
pub use mgp_types::mcp::{CallToolResult, ContentBlock};
pub use mgp_types::service::{Context, Outlet, OutletItem, Progress};
pub use mgp_types::{ErrorCode, RpcError};
pub use schemars::JsonSchema;
pub use serde::{Deserialize, Serialize};
