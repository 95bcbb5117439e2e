//! What a tool function may take as arguments.
//!
//! Applies to: inbound.

use mgp_types::mcp;
use mgp_types::service::{Context, Outlet, Principal};
use mgp_types::{ErrorCode, Payload, RawObject, RpcError};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

/// A tool call on its way into a function.
#[derive(Debug)]
pub struct ToolRequest {
    pub(crate) definition: std::sync::Arc<mcp::Tool>,
    pub(crate) arguments: Payload,
    pub(crate) cx: Context,
}

impl ToolRequest {
    /// The tool as it is listed.
    #[must_use]
    pub fn definition(&self) -> &mcp::Tool {
        &self.definition
    }

    /// The arguments as text.
    #[must_use]
    pub fn arguments(&self) -> &Payload {
        &self.arguments
    }

    /// The surroundings of the call.
    #[must_use]
    pub fn cx(&self) -> &Context {
        &self.cx
    }
}

/// An argument of a tool function.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a tool function",
    note = "take the tool's arguments as `Args<T>`, and besides them `Context`, `Outlet` or `Principal`"
)]
pub trait FromCall: Sized + Send {
    /// Takes it from the call.
    ///
    /// # Errors
    /// The answer of the call when it cannot be taken.
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError>;

    /// The schema it gives the tool's arguments, if it reads them.
    #[must_use]
    fn input_schema() -> Option<RawObject> {
        None
    }
}

/// The arguments of the tool, as a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Args<T>(pub T);

impl<T: DeserializeOwned + JsonSchema + Send> FromCall for Args<T> {
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError> {
        serde_json::from_str(request.arguments.as_str()).map(Args).map_err(|error| {
            RpcError::new(
                ErrorCode::INVALID_TOOL_ARGS,
                format!("invalid arguments for `{}`: {error}", request.definition.name),
            )
        })
    }

    fn input_schema() -> Option<RawObject> {
        Some(super::schema_of::<T>())
    }
}

impl FromCall for Context {
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError> {
        Ok(request.cx.clone())
    }
}

impl FromCall for Outlet {
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError> {
        Ok(request.cx.outlet.clone())
    }
}

impl FromCall for Principal {
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError> {
        Ok(request.cx.principal.clone())
    }
}
