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
//!   `Principal`, `Peer`, `Deadline`, [`Cancelled`], [`Trace`], [`SessionInfo`], [`Grants`], [`Logger`].
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
//!
//! let count = Tool::new("count", "Counts to three", |outlet: Outlet| async move {
//!     let mut all = String::new();
//!     for number in 1..=3 {
//!         let text = format!("{number} ");
//!         // `Gone` says that the caller left or listens to nothing: a reason to stop early, never to fail.
//!         if outlet.text(&text).await.is_err() || outlet.progress(number.into(), 3.0).await.is_err() {
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
//! Resources and prompts are functions too, what is typed for them is completed, and any of them may ask its caller:
//!
//! ```
//! use mgp_server_sdk::prelude::*;
//! use mgp_server_sdk::{ContextExt, Prompt, Resource, Typed};
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct City {
//!     /// Where.
//!     city: String,
//! }
//!
//! let weather = Resource::template("weather://{city}/now", "weather", |Args(at): Args<City>| async move {
//!     format!("Rain in {}", at.city)
//! })
//! .complete("city", |typed: Typed| async move { typed.matching(["Bern", "Bonn", "Oslo"]) });
//! let plan = Prompt::new("plan", "Plans a day", |cx: Context| async move {
//!     let at = cx.elicit::<City>("Which city?").await?.accepted();
//!     Ok::<_, RpcError>(format!("Plan a day in {}.", at.map_or_else(|| "any city".to_owned(), |at| at.city)))
//! });
//! let server = Server::new("weather", "1.0").resource(weather).prompt(plan).logging();
//! let resources = server.resources();
//! // While it runs: who watches the resource is told.
//! resources.updated("weather://Oslo/now");
//! # drop(server);
//! ```
//!
//! Applies to: inbound.

mod ask;
mod audience;
mod catalog;
mod complete;
mod drain;
mod error;
mod features;
mod furnish;
mod govern;
#[cfg(doctest)]
mod guides;
mod health;
mod herald;
#[cfg(feature = "http")]
mod http;
mod into_stack;
mod limit;
mod listen;
mod log;
mod permission;
pub mod prelude;
mod prompt;
mod request;
mod resource;
mod server;
mod signals;
mod stack;
mod tool;

pub use ask::{
    ContextExt, Elicitation, Elicited, RootsQuestion, Sampling, UrlElicitation, Visited,
};
pub use error::ServeError;
pub use herald::{Herald, Watch, Watches};
#[cfg(feature = "http")]
pub use http::{Bound, HttpServer};
pub use log::Logger;
pub use mgp_lifecycle::{Drain, DrainConfig, Remaining};
pub use mgp_lifecycle::{
    LimitConfig, Quota, QuotaLayer, QuotaUse, RateKey, RateLimit, TasksConfig, Timeouts,
};
#[cfg(feature = "macros")]
pub use mgp_macros::{tool, tools};
/// Governance and its layers; most programs need its `prelude` and no more.
pub use mgp_security as security;
#[cfg(feature = "http")]
pub use mgp_security::auth;
#[cfg(feature = "http")]
pub use mgp_transport::http::{
    Answers, ConnectionLimits, CorsLayer, HttpBody, HttpConfig, HttpService,
};
/// The vocabulary: messages, principals, calls.
pub use mgp_types as types;
pub use mgp_types::mcp::LogLevel;
pub use prompt::{Prompt, Prompts};
pub use request::{FromRequest, IntoAnswer, RequestHandler, TextRequest, Typed, Uri};
pub use resource::{Contents, Page, Resource, ResourceSet, Resources};
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
