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
//! Applies to: inbound.

mod error;
pub mod prelude;
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
