//! Write servers for the Model General Protocol and MCP.
//!
//! One server speaks every MCP revision and, to peers that negotiate it, MGP; a plain peer sees plain MCP.
//!
//! ```no_run
//! use mgp_server_sdk::prelude::*;
//!
//! /// Greets a person.
//! #[tool(read_only)]
//! async fn greet(
//!     /// Who to greet.
//!     name: String,
//! ) -> String {
//!     format!("Hello, {name}!")
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), ServeError> {
//!     Server::new("greeter", "1.0").tool(greet()).serve_stdio().await
//! }
//! ```
//!
//! # Tools
//! `#[tool]` (feature `macros`, on by default) writes calls of the builder, which does the same by hand:
//!
//! ```
//! use mgp_server_sdk::prelude::*;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Greet {
//!     /// Who to greet.
//!     name: String,
//! }
//!
//! let greet = Tool::new("greet", "Greets a person.", |Args(greet): Args<Greet>| async move {
//!     format!("Hello, {}!", greet.name)
//! });
//! # drop(greet);
//! ```
//!
//! The derives write `serde::` and `schemars::`, so the crate that uses them depends on both
//! (`serde` with feature `derive`, `schemars` 1).
//!
//! - A tool function takes its arguments, and whatever implements [`FromCall`]: [`State`], `Context`, `Outlet`,
//!   `Principal`, `Peer`, `Deadline`, [`Cancelled`], [`Trace`], [`SessionInfo`], [`Grants`].
//! - Arguments that do not fit its types never reach it; the answer names the field.
//!   Bounds that only the schema knows (`#[schemars(range(…))]`) are for the model to read; a type that refuses enforces them.
//! - What it does to the world is declared with `security(…)` or [`Tool::security`]: MGP clients check it,
//!   MCP clients get the hints that follow from it.
//! - [`Server::layer`] stands around the server, [`Tool::layer`] around one tool.
//!
//! A tool sends partial results through its `Outlet`; what nobody asked for costs nothing:
//!
//! ```
//! use mgp_server_sdk::prelude::*;
//! use mgp_types::Payload;
//! use mgp_types::mcp::ContentBlock;
//!
//! let count = Tool::new("count", "Counts to three", |outlet: Outlet| async move {
//!     let mut all = String::new();
//!     for number in 1..=3 {
//!         let text = format!("{number} ");
//!         let chunk = Payload::of(&ContentBlock::text(text.as_str()))?;
//!         let step = Progress { progress: number.into(), total: Some(3.0), ..Progress::default() };
//!         // `Gone` says that the caller left or listens to nothing: a reason to stop early, never to fail.
//!         if outlet.send(Item::Chunk(chunk)).await.is_err() || outlet.send(Item::Progress(step)).await.is_err() {
//!             break;
//!         }
//!         all.push_str(&text);
//!     }
//!     // The answer has the full text: not every caller takes chunks.
//!     Ok::<_, RpcError>(all)
//! });
//! # drop(count);
//! ```
//!
//! Applies to: inbound.

mod error;
pub mod prelude;
#[cfg(doctest)]
mod readme;
mod server;
mod stack;
mod tool;

pub use error::ServeError;
#[cfg(feature = "macros")]
pub use mgp_macros::{tool, tools};
pub use server::{Server, ServerMonitor};
pub use tool::{
    Args, Cancelled, FromCall, Grants, Handler, IntoToolResult, IntoTools, Json, Need, SchemaStyle,
    SessionInfo, Standing, State, Tool, ToolError, ToolRequest, Tools, Trace,
};

/// What macros and examples need besides this crate.
#[doc(hidden)]
pub mod reexports {
    pub use {mgp_types, schemars, serde};
}
