//! Tools that are created from functions (MCP tools, MGP §4).

#[cfg(feature = "schemas")]
mod argument_schema;
mod definition_check;
mod extract;
mod handler;
mod layers;
mod name_errors;
mod proposals;
mod registry;
mod result;
mod retry_hint;
mod run;
mod schema;
mod security;
mod stream;
mod version;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mgp_types::mcp::{self, Icon, TaskSupport, ToolAnnotations, ToolExecution};
use mgp_types::mgp::ExtensionSet;
use mgp_types::proposal::MediaSignature;
use mgp_types::service::{BoxFuture, Context, MgpService, Reply, Stack};
use mgp_types::{RawObject, RpcError};
use schemars::JsonSchema;
use tower_layer::Layer;

pub(crate) use extract::received_meta;
pub use extract::{
    Args, Cancelled, FromCall, RequestMeta, RequiredState, ResultStream, Resume, SessionInfo,
    State, ToolRequest, Trace,
};
pub use handler::{Handler, ToolArgument, assert_send};
use layers::Layers;
pub use registry::Tools;
pub(crate) use registry::WeakTools;
pub use result::{IntoToolResult, Json, ToolError};
pub(crate) use retry_hint::{RetryHint, RetryHintLayer};
pub(crate) use run::{Running, RunningLimit};
pub use schema::SchemaStyle;
pub(crate) use stream::MaxStreamBytes;
pub use version::Deprecation;

/// A tool: its definition and its function.
///
/// ```
/// use mgp_server_sdk::prelude::*;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Add { a: i64, b: i64 }
///
/// let add = Tool::new("add", "Adds two numbers", |Args(add): Args<Add>| async move { (add.a + add.b).to_string() });
/// assert_eq!(add.definition().name, "add");
/// assert!(add.definition().input_schema.as_payload().as_str().contains(r#""required":["a","b"]"#));
/// ```
#[derive(Clone)]
#[must_use]
pub struct Tool {
    definition: mcp::Tool,
    mode: ExecutionMode,
    types: FunctionTypes,
    style: Option<SchemaStyle>,
    timeout: Option<Duration>,
    max_stream_bytes: Option<u64>,
    /// The callers for which the tool exists; `None` if it exists for all of them.
    audience: Option<Arc<AudienceFn>>,
    layers: Layers,
    /// The extensions beyond MGP that add members to the definition.
    proposed: ExtensionSet,
    run: Arc<dyn Fn(ToolRequest) -> BoxFuture<'static, Result<Reply, RpcError>> + Send + Sync>,
}

/// A function that returns whether a tool exists for a caller.
type AudienceFn = dyn Fn(&Context) -> bool + Send + Sync;

/// The thread or task that runs a tool's function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExecutionMode {
    /// A new task for each call; the default.
    Task,
    /// The task of the connection, which does nothing else while the function runs: only for functions that take
    /// microseconds.
    Inline,
    /// The blocking pool: for functions that block their thread.
    Blocking,
}

/// The schemas of a tool and the state that it needs, as derived from the types of its function.
#[derive(Clone, Debug)]
struct FunctionTypes {
    /// The generator of the arguments' schema; `None` if the author wrote the schema.
    input: Option<fn(SchemaStyle) -> RawObject>,
    /// The generator of the structured content's schema; `None` if the author wrote the schema.
    output: Option<fn(SchemaStyle) -> Option<RawObject>>,
    /// `true` if results of the function can contain structured content, which a tool with an output schema must
    /// return.
    can_be_structured: bool,
    needs: Vec<RequiredState>,
}

impl Tool {
    /// Creates a tool from an async function whose parameters are extracted from the call: [`Args`], [`State`],
    /// `Context`, `Outlet` and so on.
    ///
    /// The schema of the arguments, and the output schema of a function that returns [`Json`], are generated from the
    /// function's types.
    ///
    /// The function runs on its own task and should not block its thread. A function that must block should run [on the
    /// blocking pool](Self::on_blocking_pool). If a function blocks nevertheless, a multi-thread runtime with a free
    /// thread continues to serve everything else, including pings. Everything stops if the function blocks the only
    /// thread (a current-thread runtime), or if calls block all threads. Even on a multi-thread runtime, a connection
    /// that is served on a spawned task stops while a function blocks directly after it has sent a chunk, progress or a
    /// log message.
    pub fn new<H, M>(name: impl Into<String>, description: impl Into<String>, handler: H) -> Self
    where
        H: Handler<M>,
    {
        let mut definition = mcp::Tool::new(name, RawObject::empty());
        definition.description = Some(description.into());
        let types = FunctionTypes {
            input: Some(H::input_schema),
            output: Some(H::output_schema),
            can_be_structured: H::can_be_structured(),
            needs: H::needs(),
        };
        let mut tool = Self {
            definition,
            mode: ExecutionMode::Task,
            types,
            style: None,
            timeout: None,
            max_stream_bytes: None,
            audience: None,
            layers: Layers::default(),
            proposed: ExtensionSet::EMPTY,
            run: Arc::new(move |request| handler.call(request)),
        };
        tool.write_schemas(SchemaStyle::default());
        tool
    }

    /// Creates a tool from a function that blocks its thread; it runs on the blocking pool and cannot be interrupted.
    ///
    /// If its call ends early, e.g. at its time limit, the function counts as a running call until it returns
    /// ([`Server::limit`](crate::Server::limit)).
    ///
    /// The parameter is a struct with the arguments. For a function that has further parameters, see
    /// [`Tool::on_blocking_pool`].
    pub fn blocking<T, R>(
        name: impl Into<String>,
        description: impl Into<String>,
        function: impl Fn(T) -> R + Send + Sync + 'static,
    ) -> Self
    where
        T: serde::de::DeserializeOwned + JsonSchema + Send + 'static,
        R: IntoToolResult,
    {
        let function = Arc::new(function);
        let handler = move |Args(arguments): Args<T>| {
            let function = Arc::clone(&function);
            async move { function(arguments) }
        };
        Self::new(name, description, handler).on_blocking_pool()
    }

    // === Execution ===

    /// Runs the function on the task of the connection. This saves a task switch, but the connection does nothing else
    /// while the function runs, so use it only for functions that take microseconds.
    pub fn inline(mut self) -> Self {
        self.mode = ExecutionMode::Inline;
        self
    }

    /// Runs the function, which blocks its thread, on the blocking pool; it cannot be interrupted there, and counts as
    /// a running call until it returns.
    ///
    /// ```
    /// use mgp_server_sdk::Cancelled;
    /// use mgp_server_sdk::prelude::*;
    ///
    /// let count = Tool::new("count", "Counts far", |cancelled: Cancelled| async move {
    ///     (0..1_000_000u64).take_while(|_| !cancelled.is_cancelled()).sum::<u64>().to_string()
    /// });
    /// let count = count.on_blocking_pool();
    /// # drop(count);
    /// ```
    pub fn on_blocking_pool(mut self) -> Self {
        self.mode = ExecutionMode::Blocking;
        self
    }

    /// Sets the time limit of a call, also of one that becomes a task. Default: the limit of the server, or the time to
    /// live of the task.
    pub fn timeout(mut self, after: Duration) -> Self {
        self.timeout = Some(after);
        self
    }

    /// Sets the maximum total size of a call's chunks, in bytes of JSON; a call that exceeds it ends with code 3001
    /// (resource exhausted). Default: the limit of the server.
    pub fn max_stream_bytes(mut self, bytes: u64) -> Self {
        self.max_stream_bytes = Some(bytes);
        self
    }

    /// Sets whether calls of the tool can, must or must not run as tasks (revision 2025-11-25).
    ///
    /// The caller may choose the time to live of a task, up to [`TasksConfig::max_ttl`](mgp_lifecycle::TasksConfig); a
    /// [time limit](Self::timeout) of the tool ends its tasks earlier.
    pub fn task(mut self, support: TaskSupport) -> Self {
        let execution = self.definition.execution.get_or_insert_with(ToolExecution::new);
        execution.task_support = Some(support);
        self
    }

    /// Adds a layer around this tool only; the last one added is the outermost.
    ///
    /// The layer runs inside all layers of the server, on the task of the connection; the call's context names the
    /// caller.
    ///
    /// ```
    /// use mgp_server_sdk::prelude::*;
    /// use mgp_server_sdk::types::service::{Authority, gate};
    ///
    /// // Only operators may call it.
    /// let stop = Tool::new("stop", "Stops the machine", || async { "stopped" }).layer(gate(|call| {
    ///     match call.cx().principal.authority() {
    ///         Authority::Operator => Ok(()),
    ///         _ => Err(RpcError::new(ErrorCode::ACCESS_DENIED, "operators only")),
    ///     }
    /// }));
    /// # drop(stop);
    /// ```
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<Stack> + Send + Sync + 'static,
        L::Service: MgpService,
    {
        self.layers.push(layer);
        self
    }

    /// Makes the tool exist only for callers for which `is_visible` returns `true`. For other callers it is not listed,
    /// and a call of it fails like the call of an unknown tool.
    ///
    /// The function is called for each list and each call, and must not block. If its result changes while clients are
    /// connected, call [`Tools::notify_changed`]. Calls are refused reliably, but some details, e.g. the refusal of a
    /// tool that runs only as a task, can show a caller that the name is in use.
    ///
    /// ```
    /// use mgp_server_sdk::prelude::*;
    /// use mgp_server_sdk::types::service::CredentialGrant;
    ///
    /// let roots = Tool::new("list_roots", "Lists the roots of the client", |cx: Context| async move {
    ///     Ok::<_, RpcError>(format!("{} roots", cx.roots().await?.len()))
    /// });
    /// // Only clients that offer roots see this tool; the next one needs a scope of the caller's token.
    /// let roots = roots.visible_to(|cx| cx.caller.accepts.roots);
    /// let reset = Tool::new("reset", "Deletes everything", || async { "done" }).visible_to(|cx| {
    ///     cx.extensions.get::<CredentialGrant>().is_some_and(|grant| grant.permits("admin"))
    /// });
    /// # drop(Server::new("s", "1").tool(roots).tool(reset));
    /// ```
    pub fn visible_to(
        mut self,
        is_visible: impl Fn(&Context) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.audience = Some(Arc::new(is_visible));
        self
    }

    // === Definition ===

    /// Replaces the description. For example, the description of a tool with `#[tool]` can be replaced by a text that
    /// is known only at run time.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.definition.description = Some(text.into());
        self
    }

    /// Sets the display name.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.definition.title = Some(title.into());
        self
    }

    /// Adds an icon.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.definition.icons.push(icon);
        self
    }

    /// Sets hints for MCP clients; hints that are not set are derived from the security metadata, if there is any.
    pub fn annotations(mut self, hints: ToolAnnotations) -> Self {
        self.definition.annotations = Some(hints);
        self
    }

    /// Declares the media types that the tool accepts and returns. Clients that negotiated `multimodal_signatures`
    /// select tools by them. The server refuses input above the declared maximum size with code 3001 (resource
    /// exhausted), before the tool runs. It accepts input of other media types.
    ///
    /// ```
    /// use mgp_server_sdk::prelude::*;
    /// use mgp_server_sdk::types::mgp::Extension;
    /// use mgp_server_sdk::types::proposal::MediaSignature;
    ///
    /// let mut media = MediaSignature::new();
    /// media.input_types = vec!["image/png".to_owned()].into();
    /// media.max_input_size_bytes = Some(10 << 20);
    /// let look = Tool::new("look", "Describes an image", || async { "a cat" }).media(&media);
    /// let server = Server::new("eyes", "1").tool(look).extension(Extension::MultimodalSignatures);
    /// # drop(server);
    /// ```
    pub fn media(mut self, media: &MediaSignature) -> Self {
        media.put(&mut self.definition);
        self
    }

    /// Replaces the schema of the arguments. The list of tools contains the schema unchanged, including keywords that
    /// this crate does not know.
    ///
    /// ```
    /// use mgp_server_sdk::prelude::*;
    /// use mgp_server_sdk::types::{Payload, RawObject};
    ///
    /// # fn main() -> Result<(), RpcError> {
    /// let schema =
    ///     r##"{"type":"object","$defs":{"n":{"$anchor":"n","type":"number"}},"properties":{"x":{"$ref":"#n"}}}"##;
    /// let tool = Tool::new("half", "Halves", || async { "" }).input_schema(Payload::parse(schema)?.try_into()?);
    /// assert_eq!(tool.definition().input_schema.as_payload().as_str(), schema);
    /// # Ok(())
    /// # }
    /// ```
    pub fn input_schema(mut self, schema: RawObject) -> Self {
        self.definition.input_schema = schema;
        self.types.input = None;
        self
    }

    /// Sets the schema of the structured content to that of the type `T`, for functions that return a `CallToolResult`
    /// instead of [`Json`]. Each successful result must contain structured content, so a server refuses a tool whose
    /// function returns only text.
    ///
    /// Before 2026-07-28, structured content had to be an object: callers of earlier revisions do not receive the
    /// schema of any other type.
    ///
    /// ```
    /// use mgp_server_sdk::prelude::*;
    /// use mgp_server_sdk::types::Payload;
    ///
    /// #[derive(Serialize, JsonSchema)]
    /// struct Size {
    ///     width: u32,
    /// }
    ///
    /// let plot = Tool::new("plot", "Draws a plot", || async {
    ///     let mut result = CallToolResult::new(vec![ContentBlock::image([0x89, b'P', b'N', b'G'], "image/png")]);
    ///     result.structured_content = Some(Payload::of(&Size { width: 640 })?);
    ///     Ok::<_, RpcError>(result)
    /// })
    /// .output::<Size>();
    /// # drop(plot);
    /// ```
    pub fn output<T: JsonSchema>(mut self) -> Self {
        self.types.output = Some(schema::result_of::<T>);
        self.write_schemas(self.style.unwrap_or_default());
        self
    }

    /// Replaces the schema of the structured content, which each successful result must contain.
    pub fn output_schema(mut self, schema: RawObject) -> Self {
        self.definition.output_schema = Some(schema);
        self.types.output = None;
        self
    }

    /// Sets whether the schemas describe the types of fields in place or under `$defs`. Default: the style of the
    /// server.
    pub fn schema_style(mut self, style: SchemaStyle) -> Self {
        self.style = Some(style);
        self.write_schemas(style);
        self
    }

    /// Changes any member of the definition, e.g. `_meta`.
    pub fn define(mut self, change: impl FnOnce(&mut mcp::Tool)) -> Self {
        change(&mut self.definition);
        self
    }

    /// Returns the definition as configured. It does not contain the hints that a server derives from the security
    /// metadata when the tool is added to it.
    #[must_use]
    pub fn definition(&self) -> &mcp::Tool {
        &self.definition
    }

    /// Generates the schemas of arguments and result from the function's types, unless the author wrote them.
    fn write_schemas(&mut self, style: SchemaStyle) {
        if let Some(input) = self.types.input {
            self.definition.input_schema = input(style);
        }
        if let Some(output) = self.types.output {
            self.definition.output_schema = output(style);
        }
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool")
            .field("name", &self.definition.name)
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

/// One or more tools, for [`Server::tool`](crate::Server::tool).
///
/// The attribute `#[tools]` implements this trait for the type of its impl block.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tool",
    label = "not a `Tool`, and not a type with `#[tools]` on its impl block",
    note = "a function with `#[tool]` returns its tool when it is called: `.tool(weather())`",
    note = "a type whose impl block has `#[tools]` is a set of tools: `.tool(Weather::new())`, also in an `Arc`"
)]
pub trait IntoTools {
    /// Converts the value to tools.
    fn into_tools(self) -> Vec<Tool>;
}

impl IntoTools for Tool {
    fn into_tools(self) -> Vec<Tool> {
        vec![self]
    }
}

impl<T: IntoTools> IntoTools for Vec<T> {
    fn into_tools(self) -> Vec<Tool> {
        self.into_iter().flat_map(IntoTools::into_tools).collect()
    }
}

impl<T: SharedTools + ?Sized> IntoTools for Arc<T> {
    fn into_tools(self) -> Vec<Tool> {
        self.shared_tools()
    }
}

/// A value whose methods are tools, and which other parts of the program can use too. `#[tools]` implements this trait,
/// so that [`Server::tool`](crate::Server::tool) also accepts an `Arc` of the type.
///
/// ```
/// use std::sync::{Arc, Mutex};
///
/// use mgp_server_sdk::prelude::*;
/// use mgp_server_sdk::Resource;
///
/// #[derive(Default)]
/// struct Notes(Mutex<Vec<String>>);
///
/// #[tools]
/// impl Notes {
///     /// Adds a note.
///     #[tool]
///     async fn add(&self, note: String) {
///         self.0.lock().unwrap().push(note);
///     }
/// }
///
/// let notes = Arc::new(Notes::default());
/// let listed = Arc::clone(&notes);
/// let list = Resource::new("note://all", "notes", move || {
///     let text = listed.0.lock().unwrap().join("\n");
///     async move { text }
/// });
/// # drop(Server::new("notes", "1.0").tool(notes).resource(list));
/// ```
pub trait SharedTools {
    /// Returns the tools of the value.
    fn shared_tools(self: Arc<Self>) -> Vec<Tool>;
}
