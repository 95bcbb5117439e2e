//! An SDK for servers of the Model General Protocol (MGP) and of MCP.
//!
//! One server supports every MCP revision and, for clients that negotiate it, MGP; other clients see a plain MCP
//! server. Below, *legacy* clients speak an MCP revision up to 2025-11-25, in which a session begins with `initialize`.
//! *Modern* clients speak 2026-07-28, in which each request is independent.
//!
//! ```no_run
//! use mgp_server_sdk::prelude::*;
//!
//! /// Greets a person.
//! #[tool(read_only)]
//! async fn greet(
//!     /// The person to greet.
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
//! The attribute `#[tool]` (feature `macros`, on by default) generates calls of the builder, which you can also write
//! by hand:
//!
//! ```
//! use mgp_server_sdk::prelude::*;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Greet {
//!     /// The person to greet.
//!     name: String,
//! }
//!
//! let greet = Tool::new("greet", "Greets a person.", |Args(greet): Args<Greet>| async move {
//!     format!("Hello, {}!", greet.name)
//! });
//! # drop(greet);
//! ```
//!
//! The derives expand to paths that begin with `serde::` and `schemars::`, so the crate that uses them must depend on
//! both (`serde` with the feature `derive`, `schemars` 1).
//!
//! - A tool function takes its arguments and any type that implements [`FromCall`]: [`State`], `Context`, `Outlet`,
//!   `Principal`, `Peer`, `Deadline`, [`Cancelled`], [`RequestMeta`], [`Trace`], [`SessionInfo`], [`Grants`],
//!   [`Logger`].
//! - Arguments that do not match the function's types are refused before the function runs; the error names the field.
//!   Constraints that are only in the schema (`#[schemars(range(…))]`) inform the model; to enforce a constraint, use a
//!   type that rejects other values.
//! - The effects of a tool are declared with `security(…)` or [`Tool::security`]: MGP clients check them, and MCP
//!   clients receive hints that are derived from them.
//! - [`Server::layer`] adds a layer around the whole server, [`Tool::layer`] around a single tool;
//!   [`gate`](types::service::gate) and [`around`](types::service::around) create one from a closure.
//!
//! A tool sends partial results through its `Outlet`; items that the caller did not request cost nothing:
//!
//! ```
//! use mgp_server_sdk::prelude::*;
//!
//! let count = Tool::new("count", "Counts to three", |outlet: Outlet| async move {
//!     let mut all = String::new();
//!     for number in 1..=3 {
//!         let text = format!("{number} ");
//!         // `ConsumerGone` means that the caller left: a reason to stop early, never to fail.
//!         if outlet.text(&text).await.is_err() || outlet.progress(number.into(), 3.0).await.is_err() {
//!             break;
//!         }
//!         all.push_str(&text);
//!     }
//!     // The result has the full text: not every caller takes chunks.
//!     Ok::<_, RpcError>(all)
//! });
//! # drop(count);
//! ```
//!
//! Resources and prompts are functions too. Their arguments can be completed. Each function can ask its caller for
//! input; the time of a function is limited, including its wait for the answer:
//!
//! ```
//! use std::time::Duration;
//!
//! use mgp_server_sdk::prelude::*;
//! use mgp_server_sdk::{ContextExt, Prompt, Resource, PartialArgument};
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct City {
//!     /// The name of the city.
//!     city: String,
//! }
//!
//! let weather = Resource::template("weather://{city}/now", "weather", |Args(at): Args<City>| async move {
//!     format!("Rain in {}", at.city)
//! })
//! .complete("city", |typed: PartialArgument| async move { typed.matching(["Bern", "Bonn", "Oslo"]) });
//! let plan = Prompt::new("plan", "Plans a day", |cx: Context| async move {
//!     let at = cx.elicit::<City>("Which city?").await?.accepted();
//!     Ok::<_, RpcError>(format!("Plan a day in {}.", at.map_or_else(|| "any city".to_owned(), |at| at.city)))
//! });
//! let server = Server::new("weather", "1.0").resource(weather).prompt(plan).logging();
//! let server = server.timeout(Duration::from_mins(10));
//! let resources = server.resources();
//! // While it runs, this notifies the clients that are subscribed to the resource.
//! resources.updated("weather://Oslo/now");
//! # drop(server);
//! ```
//!
//! # Further tasks
//! | Task | Items |
//! |---|---|
//! | return data with a schema | [`Json`]; [`Tool::output`] for functions that return a `CallToolResult` |
//! | return images, audio, several blocks | `ContentBlock::image`, `ContentBlock::audio`, a `Vec` of blocks |
//! | return a link to a resource, or a resource | `ContentBlock::resource_link`, `ContentBlock::resource` |
//! | report progress, send a result in pieces | `Outlet`, [`ResultStream`] |
//! | react to a cancellation | [`Cancelled`]; other async functions are dropped at their current await point |
//! | ask the user, use the caller's model, read its roots | [`ContextExt`] |
//! | send log messages to the caller | [`Server::logging`] with [`Logger`] or [`ContextExt::log`] |
//! | share a value between tools and other functions | [`State`]; [`SharedTools`] for a type with `#[tools]` |
//! | keep data of a session | `Scope::state` of `Context::scope`; [`CallerState`] for callers without a session |
//! | read `_meta` of the request | [`RequestMeta`] |
//! | add, remove, enable and disable tools while the server runs | [`Server::tools`] |
//! | show a tool only to some callers | [`Tool::visible_to`] |
//! | set the server's title, icons, web site | [`Server::offer`] |
//! | limit calls | [`Server::timeout`], [`Server::limit`], [`Server::rate`], [`Server::quota`] |
//! | protect tools, keep an audit log | [`Server::governed`] |
//! | run repeated calls once, undo the steps of a transaction | [`Idempotency`] and [`Transactions`] |
//! | serve a host or other streams | [`Server::serve_stdio`], [`Server::serve`] |
//! | serve at a URL (feature `http`) | `Server::http`, `Server::into_http_service` |
//! | authenticate callers at a URL | `HttpServer::auth` with `auth::ApiKeys` or `auth::ResourceServer` |
//! | stop without losing calls | signals do so by default; [`Server::drain_handle`] |
//! | test tools without a process | `TestClient` of the crate `mgp-client-sdk` |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod app;
mod ask;
mod builder;
mod catalog;
mod change_notifier;
mod completers;
mod completion;
#[cfg(feature = "http")]
mod data_references;
mod drain;
mod error;
mod events;
mod extension;
mod features;
mod governance;
#[cfg(doctest)]
mod guides;
mod health;
#[cfg(feature = "http")]
mod http;
mod leaf;
mod limit;
mod listen;
mod log;
mod manifest;
#[cfg(feature = "http")]
mod pages;
mod permission;
pub mod prelude;
mod prompt;
mod proposals;
mod request;
mod request_context;
mod resource;
mod server;
mod session_state;
mod signals;
#[cfg(feature = "skills")]
mod skill;
mod stack;
mod subscribers;
mod tool;
mod transactions;
mod uri;
mod whole_numbers;

pub use ask::{
    ContextExt, Elicitation, Elicited, RootsRequest, Sampling, UrlElicitation, UrlElicited,
    UserQuestion,
};
pub use change_notifier::{ChangeNotifier, ResourceSubscriber, ResourceSubscription};
#[cfg(feature = "http")]
pub use data_references::DataReferences;
pub use error::ServeError;
pub use extension::{FromCaller, ServerExtension};
#[cfg(feature = "http")]
pub use http::{BoundServer, HttpServer};
pub use log::Logger;
pub use manifest::Manifest;
pub use mgp_lifecycle::{Drain, DrainConfig, Idempotency, RemainingCalls, Transactions};
pub use mgp_lifecycle::{
    LimitConfig, Quota, QuotaLayer, QuotaUse, RateKey, RateLimit, RoundsConfig, TaskTables,
    TasksConfig, Timeouts,
};
#[cfg(feature = "macros")]
pub use mgp_macros::{tool, tools};
/// The governance of tools and its layers; most programs need only its `prelude`.
pub use mgp_security as security;
#[cfg(feature = "http")]
pub use mgp_security::auth;
pub use mgp_security::{GrantState, Grants};
pub use mgp_stream::{
    CheckpointLayer, EventDraft, EventHub, EventLimits, EventReader, EventStore, EventSubject,
    ReadEvent,
};
pub use mgp_transport::Limits;
#[cfg(feature = "http")]
pub use mgp_transport::http::{
    AnswerMode, ConnectionLimits, CorsLayer, GuardedFetch, HttpBody, HttpConfig, HttpService,
};
#[cfg(feature = "tls")]
pub use mgp_transport::http::{ServerTls, ServerTlsError};
/// The types of the protocol: messages, principals, calls.
pub use mgp_types as types;
pub use mgp_types::mcp::LogLevel;
#[cfg(feature = "http")]
pub use pages::Pages;
pub use prompt::{Prompt, Prompts};
pub use proposals::{HumanInTheLoop, StructuredErrors};
pub use request::{FromRequest, IntoAnswer, PartialArgument, RequestHandler, TextRequest, Uri};
pub use resource::{Contents, Page, Resource, ResourceSet, Resources};
pub use server::{Server, ServerMonitor};
pub use session_state::{CallerState, SessionStates};
#[cfg(feature = "skills")]
pub use skill::{Skill, SkillError};
pub use tool::{
    Args, Cancelled, Deprecation, FromCall, Handler, IntoToolResult, IntoTools, Json, RequestMeta,
    RequiredState, ResultStream, Resume, SchemaStyle, SessionInfo, SharedTools, State, Tool,
    ToolError, ToolRequest, Tools, Trace,
};

/// The items of this and other crates that the code generated by `#[tool]` and `#[tools]` uses.
#[doc(hidden)]
pub mod reexports {
    pub use crate::tool::{ToolArgument, assert_send};
    pub use {mgp_types, schemars, serde};
}
