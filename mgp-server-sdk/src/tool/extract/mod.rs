//! What a tool function may take as arguments.
//!
//! Applies to: inbound.

mod args;
mod cancelled;
mod grants;
mod session;
mod state;
mod surroundings;

use std::sync::Arc;

use mgp_types::mcp;
use mgp_types::service::{Context, Extensions};
use mgp_types::{Payload, RawObject, RpcError};

pub use args::Args;
pub use cancelled::Cancelled;
pub(super) use grants::admit;
pub use mgp_security::{GrantStanding as Standing, Grants};
pub use session::{SessionInfo, Trace};
pub use state::{Need, State};

use super::SchemaStyle;

/// A tool call on its way into a function.
#[derive(Debug)]
pub struct ToolRequest {
    pub(crate) definition: Arc<mcp::Tool>,
    pub(crate) arguments: Payload,
    pub(crate) cx: Context,
    pub(crate) state: Arc<Extensions>,
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

    /// The server's state of a type, see [`State`].
    #[must_use]
    pub fn state<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.state.get_shared()
    }
}

/// An argument of a tool function.
///
/// ```
/// use mgp_server_sdk::prelude::*;
/// use mgp_server_sdk::{FromCall, ToolRequest};
///
/// /// The agent that calls.
/// struct Agent(String);
///
/// impl FromCall for Agent {
///     fn from_call(request: &ToolRequest) -> Result<Self, RpcError> {
///         let agent = request.cx().principal.as_agent();
///         Ok(Self(agent.map_or_else(|| "nobody".to_owned(), ToString::to_string)))
///     }
/// }
///
/// let who = Tool::new("who", "Says who calls", |Agent(name): Agent| async move { name });
/// # drop(who);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a tool function",
    label = "not an extractor",
    note = "the tool's arguments are `Args<T>` with `T: Deserialize + JsonSchema`",
    note = "besides them it takes `State<T>`, `Context`, `Outlet`, `Principal`, `Peer`, `Cancelled`, `Deadline`, `Grants`, `Logger`, `SessionInfo`, `Trace`, or a type of yours that implements `FromCall`"
)]
pub trait FromCall: Sized + Send {
    /// Takes it from the call.
    ///
    /// # Errors
    /// The answer of the call when it cannot be taken.
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError>;

    /// The schema it gives the tool's arguments, if it reads them.
    #[must_use]
    fn input_schema(_: SchemaStyle) -> Option<RawObject> {
        None
    }

    /// What it needs of the server; checked when the server is built.
    #[must_use]
    fn needs() -> Vec<Need> {
        Vec::new()
    }
}
