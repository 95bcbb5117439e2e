//! Makes calls again that failed and may go better: waits, a budget, a fallback tool, a circuit breaker (MGP §14.6).
//!
//! The layer stands outside all gates, so that every attempt passes all of them and is recorded by itself.
//! What a server says of trying again is followed as far as the caller's own bounds reach, and never further:
//!
//! | rule | |
//! |---|---|
//! | who says so | a call is made again only where its error says `retryable: true` |
//! | what may have run | 2000–2002, 3000–3002, 1000–1099 and 4000–4199 say that a call never started, unless `details.started` is true; after all else a tool is called again only where its definition says that it reads only or may be repeated, or the caller said so ([`RetryConfig::repeat`]) |
//! | dangerous and irreversible | such a tool is called again only where the caller said so |
//! | partial results | after a chunk was handed on a call is not made again; after any other item it counts as started |
//! | how long | at least `retry_after_ms`, by `retry_strategy`; a wait longer than [`RetryConfig::longest_wait`], or than what is left of the deadline or of [`RetryConfig::total`], is not begun |
//! | how often | the smaller of `max_retries` and [`RetryConfig::retries`], within [`RetryConfig::budget`] |
//! | `fallback_tool` | once these are used up: one call of another tool of the server, which must be listed and no more dangerous |
//! | circuit breaker | a server that cannot be reached several times in a row is left alone for a while ([`RetryConfig::circuit`]) |
//!
//! A call whose server is left alone is refused with 5002 before any gate, so no record tells of it.
//! Where nothing fails a call costs a copy of itself, some 1,800 instructions, and no box or timer.
//!
//! It acts on tool calls and on requests that only read: lists, resources, prompts, completion.
//! Everything else passes: notifications, the handshake, pings, methods of tasks and of MGP.
//!
//! Applies to: outbound.

mod again;
mod budget;
mod circuit;
mod config;
mod decide;
mod failure;
mod future;
mod heard;
mod known;
mod layer;
mod server;
#[cfg(test)]
mod tests;

pub use budget::RetryBudget;
pub use circuit::CircuitConfig;
pub use config::{Attempted, FollowFallback, RetryConfig};
pub use known::{KnownTool, Repeat};
pub use layer::{Retry, RetryLayer};
