//! Write servers for the Model General Protocol and MCP.
//!
//! One server speaks every MCP revision and, to peers that negotiate it, MGP; a plain peer sees plain MCP.
//!
//! ```no_run
//! use mgp_server_sdk::prelude::*;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Greet {
//!     /// Who to greet.
//!     name: String,
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), ServeError> {
//!     let greet = Tool::new("greet", "Greets a person", |Args(greet): Args<Greet>| async move {
//!         format!("Hello, {}!", greet.name)
//!     });
//!     Server::new("greeter", "1.0").tool(greet).serve_stdio().await
//! }
//! ```
//!
//! The derives write `serde::` and `schemars::`, so the crate that uses them depends on both
//! (`serde` with feature `derive`, `schemars` 1).
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
#[cfg(doctest)]
mod guides;
pub mod prelude;
#[cfg(doctest)]
mod readme;
mod server;
mod stack;
mod tool;

pub use error::ServeError;
pub use server::{Server, ServerMonitor};
pub use tool::{
    Args, FromCall, Handler, IntoToolResult, Json, Tool, ToolError, ToolRequest, Tools,
};

/// What macros and examples need besides this crate.
#[doc(hidden)]
pub mod reexports {
    pub use {schemars, serde};
}
