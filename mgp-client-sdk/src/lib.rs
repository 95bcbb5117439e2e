//! An SDK to write clients for the Model General Protocol and MCP, and to forward calls between servers.
//!
//! - [`Client`] connects to one server and calls it.
//! - [`SupervisedClient`] starts its server, and restarts it when it ends.
//! - [`ToolRouter`] routes tool calls to several servers, and translates between the eras of caller and server.
//!
//! MCP has two eras. *Legacy* peers speak a revision up to 2025-11-25, in which a session begins with `initialize`.
//! *Modern* peers speak 2026-07-28, in which each request is independent. A client detects the era of its server.
//!
//! A server in a separate process:
//!
//! ```no_run
//! use mgp_client_sdk::prelude::*;
//!
//! # async fn run() -> Result<(), Error> {
//! let server = ChildCommand::new("uvx").args(["mcp-server-time"]);
//! let client = Client::builder("me", "1.0").spawn(server).await?;
//! let time = client.call("get_current_time").arg("timezone", "UTC").await?.into_result()?;
//! println!("{}", time.to_text());
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! A server at a URL, with the feature `http`:
//!
//! ```no_run
//! # #[cfg(feature = "http")]
//! # async fn run() -> Result<(), mgp_client_sdk::Error> {
//! use mgp_client_sdk::prelude::*;
//!
//! let client = Client::builder("me", "1.0").connect_url("http://127.0.0.1:8000/mcp").await?;
//! println!("{}", client.call("get_current_time").await?.to_text());
//! # Ok(())
//! # }
//! ```
//!
//! A server in memory, for its tests:
//!
//! ```
//! use mgp_client_sdk::TestClient;
//! use mgp_server_sdk::{Server, Tool};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let hello = Tool::new("hello", "Greets", || async { "Hello!" });
//! let client = TestClient::new(Server::new("greeter", "1.0").tool(hello)).await;
//! assert_eq!(client.text("hello", ()).await, "Hello!");
//! # });
//! ```
//!
//! # Further tasks
//! | Task | Items |
//! |---|---|
//! | send a key or token | `ClientBuilder::bearer`, `ClientBuilder::credentials` (feature `http`) |
//! | log in with OAuth 2.1 | `auth::OAuth` (feature `auth`) |
//! | restart a server that ends | [`ClientBuilder::supervise`], `ClientBuilder::supervise_url` |
//! | receive progress, receive a result in pieces | [`ToolCall::progress`], [`ToolCall::stream`] |
//! | set time-outs | [`ClientBuilder::timeout`], [`ToolCall::timeout`] |
//! | receive changes of lists and resources | [`ClientBuilder::on_change`] |
//! | receive log messages, other notifications | [`ClientBuilder::on_log`], [`ClientBuilder::on`] |
//! | subscribe to events | [`Client::events`] |
//! | answer questions of the server | [`ClientHandler`], or [`ClientBuilder::on_elicitation`] and similar methods |
//! | retry calls | [`ClientBuilder::retry`] |
//! | limit rate and quota of calls | [`ClientBuilder::layer`] with [`RateLayer`] or [`QuotaLayer`] |
//! | choose layers, govern calls | [`ClientBuilder::layer`], [`ClientBuilder::governed`] |
//! | call any method | [`Client::request`], [`Client::mgp`] |

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "auth")]
pub mod auth;
mod builder;
mod cache;
mod call;
mod client;
mod config;
mod error;
mod events;
mod extension;
pub mod gateway;
mod govern;
mod handler;
mod health;
mod listening;
mod permission;
pub mod prelude;
mod presence;
#[cfg(doctest)]
mod readme;
mod result;
mod session_state;
mod supervised;
mod test_client;
mod tool_router;
mod wire;

pub use builder::ClientBuilder;
pub use call::{StreamItem, ToolCall, ToolStream};
pub use client::{Client, Mgp};
pub use config::{ClientConfig, ListenConfig};
pub use error::{Error, ToolFailure};
pub use events::{ClientEvents, EventCursor, EventStream, ServerEvent, SubscribeEvents};
pub use extension::ClientExtension;
pub use handler::{ClientHandler, ServerChange};
pub use health::HealthWatch;
pub use mgp_lifecycle::{
    AttemptReport, CircuitConfig, EraChoice, FallbackPolicy, HealthChange, HealthReason, KeyPolicy,
    MonitorConfig, Quota, QuotaLayer, RateKey, RateLayer, RateLimit, RepeatPolicy, RetryBudget,
    RetryConfig, RetryLayer, ToolRetryInfo, UngrantedPolicy,
};
/// Configuration and reports of a supervisor.
pub use mgp_lifecycle::{
    RestState, RestartLimitExceeded, StateReport, SuperviseConfig, Supervised,
};
/// Governance and its layers; most programs need only its `prelude`.
pub use mgp_security as security;
pub use mgp_stream::{CallbackAnswer, ResumeLayer};
pub use mgp_transport::Limits;
#[cfg(feature = "http")]
pub use mgp_transport::http::{
    Bearer, CredentialRefusal, Credentials, EraCache, GuardedFetch, HttpClientConfig,
    RequestCredentials, RequestTarget,
};
/// The vocabulary: messages, principals, calls.
pub use mgp_types as types;
pub use result::ToolResult;
pub use session_state::SessionStateJar;
pub use supervised::SupervisedClient;
pub use test_client::TestClient;
pub use tool_router::{Hop, ToolRouter};
