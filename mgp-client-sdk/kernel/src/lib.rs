//! The kernel: all servers of a person behind one (MGP §8, §15, §16 put to work; DESIGN §5).
//!
//! ```text
//! hosts, agents ─▶ upstream server ─▶ switch ─▶ one governed, supervised client for each server
//!                                      │
//!                        find and call, registry, health, access
//! ```
//!
//! - `fleet/`: the servers, each with its supervised client; `feed.rs` there brings their tools into the index.
//! - `switch/`: what becomes of a call from above.
//! - `admin/`: what an operator does, `mgp/kernel/*`; `reload.rs`: what another configuration changes.
//! - `registered.rs`: servers that are registered while it runs.
//! - `clients.rs`: who is connected; `host.rs`: what the kernel and the program around it tell each other.
//! - `remedy.rs`: what helps against a refusal, as a command of the program.
//! - `seen.rs`: what a caller sees, in one place for calls, lists, searches and the registry.
//!
//! Applies to: both.

mod admin;
mod again;
mod builder;
mod callers;
mod clients;
mod current;
mod error;
mod fleet;
mod handle;
mod hops;
mod host;
mod log;
mod policy;
mod registered;
mod reload;
mod remedy;
mod seen;
mod switch;
mod upstream;
mod watch;

pub use builder::KernelBuilder;
pub use clients::{Carrier, Clients, Connected, Present};
pub use error::KernelError;
pub use handle::Kernel;
pub use host::Reachable;
