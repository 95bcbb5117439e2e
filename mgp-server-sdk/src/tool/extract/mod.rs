//! The parameters of tool functions (extractors), and the tool call from which they are extracted.

mod args;
mod cancelled;
mod grants;
mod request_meta;
mod result_stream;
mod resume;
mod session;
mod state;

use std::sync::{Arc, OnceLock};

use mgp_types::mcp;
use mgp_types::service::{
    Context, Deadline, Extensions, Outlet, OutletItemKind, Peer, Principal, StreamLimit,
};
use mgp_types::{Payload, RawObject, RpcError};

pub use args::Args;
pub(super) use cancelled::Abandoned;
pub use cancelled::Cancelled;
pub(super) use grants::admit;
pub use request_meta::RequestMeta;
pub(crate) use request_meta::received_meta;
pub use result_stream::ResultStream;
pub use resume::Resume;
pub use session::{SessionInfo, Trace};
pub use state::{RequiredState, State};

use super::SchemaStyle;
use super::stream::{ChunkRecorder, MaxStreamBytes, RecordedOutlet};

/// A call of a tool, before the function of the tool runs.
#[derive(Debug)]
pub struct ToolRequest {
    pub(crate) definition: Arc<mcp::Tool>,
    pub(crate) arguments: Payload,
    meta: Option<Payload>,
    pub(crate) cx: Context,
    pub(crate) state: Arc<Extensions>,
    recorder: OnceLock<Arc<ChunkRecorder>>,
    max_stream_bytes: Option<u64>,
}

impl ToolRequest {
    pub(crate) fn new(
        definition: Arc<mcp::Tool>,
        arguments: Payload,
        cx: Context,
        state: Arc<Extensions>,
    ) -> Self {
        let recorder = OnceLock::new();
        Self { definition, arguments, meta: None, cx, state, recorder, max_stream_bytes: None }
    }

    pub(crate) fn with_meta(mut self, meta: Option<Payload>) -> Self {
        self.meta = meta;
        self
    }

    /// If the caller wants chunks, replaces the outlet of the call by one that records them. `max_bytes` is the tool's
    /// own limit on the size of the chunks.
    pub(super) fn open_stream(&mut self, is_blocking: bool, max_bytes: Option<u64>) {
        self.max_stream_bytes = max_bytes;
        if !self.cx.outlet.wants(OutletItemKind::Chunk) {
            return;
        }
        if let (Some(limit), Some(bytes)) = (StreamLimit::of(&self.cx), max_bytes) {
            limit.restrict(bytes, None);
        }
        let recorder = ChunkRecorder::new(&self.cx.outlet, is_blocking, None);
        self.cx.outlet = Outlet::new(Arc::new(RecordedOutlet(Arc::clone(&recorder))));
        self.recorder = recorder.into();
    }

    /// Returns the recorder of the call's chunks, if one was created: the caller wants chunks, or a parameter of the
    /// function is a `ResultStream`.
    pub(super) fn opened(&self) -> Option<Arc<ChunkRecorder>> {
        self.recorder.get().cloned()
    }

    /// Returns the recorder of the call's chunks. If the caller wants no chunks, creates a recorder that only adds them
    /// to the result.
    fn recorder(&self) -> Arc<ChunkRecorder> {
        let make = || {
            let of_server =
                || self.state.get::<MaxStreamBytes>().map(|MaxStreamBytes(bytes)| *bytes);
            let max_bytes = self.max_stream_bytes.or_else(of_server);
            ChunkRecorder::new(&Outlet::none(), false, max_bytes)
        };
        Arc::clone(self.recorder.get_or_init(make))
    }

    /// Returns the definition of the tool, in the form in which it is listed.
    #[must_use]
    pub fn definition(&self) -> &mcp::Tool {
        &self.definition
    }

    /// Returns the arguments as JSON text.
    #[must_use]
    pub fn arguments(&self) -> &Payload {
        &self.arguments
    }

    /// Returns the object `_meta` of the request as JSON text, see [`RequestMeta`]; `None` if the caller sent none.
    #[must_use]
    pub fn meta(&self) -> Option<&Payload> {
        self.meta.as_ref()
    }

    /// Returns the context of the call.
    #[must_use]
    pub fn cx(&self) -> &Context {
        &self.cx
    }

    /// Returns the server's state of a type, see [`State`].
    #[must_use]
    pub fn state<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.state.get_shared()
    }
}

/// A parameter of a tool function.
///
/// ```
/// use mgp_server_sdk::prelude::*;
/// use mgp_server_sdk::{FromCall, ToolRequest};
///
/// /// The agent of the caller.
/// struct Agent(String);
///
/// impl FromCall for Agent {
///     fn from_call(request: &ToolRequest) -> Result<Self, RpcError> {
///         let agent = request.cx().principal.as_agent();
///         Ok(Self(agent.map_or_else(|| "no agent".to_owned(), ToString::to_string)))
///     }
/// }
///
/// let who = Tool::new("who", "Names the caller", |Agent(name): Agent| async move { name });
/// # drop(who);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a tool function",
    label = "not an extractor",
    note = "the tool's arguments are `Args<T>` with `T: Deserialize + JsonSchema`",
    note = "besides them it takes `State<T>`, `Context`, `Outlet`, `Principal`, `Peer`, `Cancelled`, `ResultStream`, `Deadline`, `Grants`, `Logger`, `RequestMeta`, `SessionInfo`, `Trace`, or a type of yours that implements `FromCall`"
)]
pub trait FromCall: Sized + Send {
    /// Extracts the value from the call.
    ///
    /// # Errors
    /// Returns the error that the caller receives if the value cannot be extracted.
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError>;

    /// Returns the schema of the tool's arguments if this parameter reads them, else `None`.
    #[must_use]
    fn input_schema(_: SchemaStyle) -> Option<RawObject> {
        None
    }

    /// Returns the state that the parameter needs from the server; checked when the server is built.
    #[must_use]
    fn needs() -> Vec<RequiredState> {
        Vec::new()
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

impl FromCall for Peer {
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError> {
        Ok(request.cx.peer.clone())
    }
}

impl FromCall for Deadline {
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError> {
        Ok(request.cx.deadline)
    }
}
