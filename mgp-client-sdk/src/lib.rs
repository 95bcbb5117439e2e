//! Write clients for the Model General Protocol and MCP, and pass calls on between servers.
//!
//! - [`Client`] connects to one server and calls it.
//! - [`Switchboard`] passes the calls of one side on to several servers, whatever era each side speaks.
//!
//! A server in a process of its own:
//!
//! ```no_run
//! use mgp_client_sdk::{Client, ClientConfig};
//! use mgp_transport::ChildCommand;
//! use mgp_types::Payload;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let mut child = ChildCommand::new("uvx").args(["mcp-server-time"]).spawn()?;
//! let (reader, writer) = child.take_io().expect("taken once");
//! let client = Client::connect(reader, writer, ClientConfig::new("me", "1.0")).await?;
//! let arguments = Payload::parse(r#"{"timezone":"UTC"}"#)?;
//! println!("{:?}", client.call_tool("get_current_time", &arguments).await?.content);
//! drop(client);
//! child.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! A server in memory, and its chunks; a client takes them once it offers `streaming`:
//!
//! ```
//! use std::sync::Arc;
//!
//! use mgp_client_sdk::{Client, ClientConfig};
//! use mgp_lifecycle::MgpOffer;
//! use mgp_server_sdk::prelude::*;
//! use mgp_transport::duplex;
//! use mgp_types::Payload;
//! use mgp_types::mcp::ContentBlock;
//! use mgp_types::mgp::{Extension, ExtensionSet};
//! use mgp_types::service::{BoxFuture, Gone, Sink};
//!
//! struct Print;
//!
//! impl Sink for Print {
//!     fn send(&self, item: Item) -> BoxFuture<'_, Result<(), Gone>> {
//!         println!("{item:?}");
//!         Box::pin(async { Ok(()) })
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let hello = Tool::new("hello", "Greets", |outlet: Outlet| async move {
//!     let chunk = Payload::of(&ContentBlock::text("Hel"))?;
//!     let _ = outlet.send(Item::Chunk(chunk)).await;
//!     Ok::<_, RpcError>("Hello")
//! });
//! let (here, there) = duplex();
//! tokio::spawn(Server::new("greeter", "1.0").tool(hello).serve(there.reader, there.writer));
//!
//! let mut config = ClientConfig::new("me", "1.0");
//! config.offer.mgp = Some(MgpOffer::new(ExtensionSet::EMPTY.with(Extension::Streaming)));
//! let client = Client::connect(here.reader, here.writer, config).await.unwrap();
//! let outlet = Outlet::new(Arc::new(Print));
//! let reply = client.call_tool_with("hello", &Payload::empty_object(), outlet).await.unwrap();
//! assert_eq!(reply.get::<CallToolResult>().unwrap().content, [ContentBlock::text("Hello")]);
//! # });
//! ```
//!
//! Applies to: outbound.

mod client;
mod inbound;
mod outbound;
mod switchboard;

pub use client::{Client, ClientConfig};
pub use switchboard::{Hop, Switchboard};
