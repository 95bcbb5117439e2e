//! Tests that bad networks and misbehaving clients cause no lasting damage to a server over HTTP (MCP transports).

#![expect(clippy::unwrap_used, reason = "a test")]

mod caller;
mod client_gone;
mod credentials;
mod direct;
mod dropped_calls;
mod idle_sessions;
mod large_bodies;
#[path = "../core_cleanup/memory.rs"]
mod memory;
mod multipart;
mod noise;
mod other_audience;
mod other_tenant;
mod panics;
mod sealed_state;
mod shares;
mod slow_clients;
mod stream_cancel;
mod task_questions;
mod two_chats;
mod wire;
mod world;
