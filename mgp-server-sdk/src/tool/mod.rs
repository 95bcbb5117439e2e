//! Tools from functions (MCP tools, MGP §4).
//!
//! Applies to: inbound.

mod extract;
mod handler;
mod registry;
mod result;
mod run;

use std::fmt;
use std::sync::Arc;

use mgp_types::mcp;
use mgp_types::service::{BoxFuture, Reply};
use mgp_types::{RawObject, RpcError};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;

pub use extract::{Args, FromCall, ToolRequest};
pub use handler::Handler;
pub use registry::Tools;
pub use result::{IntoToolResult, Json, ToolError};
pub(crate) use run::Running;

/// A tool: its definition and the function behind it.
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
    place: Place,
    run: Arc<dyn Fn(ToolRequest) -> BoxFuture<'static, Result<Reply, RpcError>> + Send + Sync>,
}

/// Where a tool's function runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// On a task of its own: the rule.
    Task,
    /// On the connection's task: for functions of microseconds.
    Inline,
    /// On the blocking pool: for functions that block their thread.
    Blocking,
}

impl Tool {
    /// A tool from an async function whose arguments are taken from the call: [`Args`], `Context`, `Outlet` and so on.
    pub fn new<H, M>(name: impl Into<String>, description: impl Into<String>, handler: H) -> Self
    where
        H: Handler<M>,
    {
        let mut definition = mcp::Tool::new(name, H::input_schema());
        definition.description = Some(description.into());
        Self { definition, place: Place::Task, run: Arc::new(move |request| handler.call(request)) }
    }

    /// A tool from a function that blocks its thread; it runs on the blocking pool and cannot be interrupted.
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
        Self { place: Place::Blocking, ..Self::new(name, description, handler) }
    }

    /// Runs the function on the connection's own task: saves a task switch, and holds up the connection while it runs.
    ///
    /// For functions of microseconds only.
    pub fn inline(mut self) -> Self {
        self.place = Place::Inline;
        self
    }

    /// Replaces the schema of the arguments.
    pub fn input_schema(mut self, schema: RawObject) -> Self {
        self.definition.input_schema = schema;
        self
    }

    /// Changes the definition: title, annotations, security and so on.
    pub fn define(mut self, change: impl FnOnce(&mut mcp::Tool)) -> Self {
        change(&mut self.definition);
        self
    }

    /// The definition as it is listed.
    #[must_use]
    pub fn definition(&self) -> &mcp::Tool {
        &self.definition
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool")
            .field("name", &self.definition.name)
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

/// The JSON Schema (2020-12) of a type, with subschemas inlined: several model APIs reject `$defs`.
fn schema_of<T: JsonSchema>() -> RawObject {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    RawObject::of(&schema).unwrap_or_else(|_| any_object())
}

/// The schema of a tool that takes no arguments.
fn any_object() -> RawObject {
    RawObject::of(&std::collections::BTreeMap::from([("type", "object")])).unwrap_or_default()
}
