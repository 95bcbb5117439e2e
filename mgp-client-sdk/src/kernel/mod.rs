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
//! - `seen.rs`: what a caller sees, in one place for calls, lists, searches and the registry.
//!
//! Applies to: both.

mod builder;
mod callers;
mod error;
mod fleet;
mod handle;
mod hops;
mod log;
mod policy;
mod seen;
mod switch;
mod upstream;
mod watch;

pub use builder::KernelBuilder;
pub use error::KernelError;
pub use handle::Kernel;
