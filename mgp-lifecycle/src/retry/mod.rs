//! Retries failed calls that might succeed later, with waits, a budget, a fallback tool and a circuit breaker (MGP
//! §14.6).
//!
//! Put the layer outside all gates (layers that can refuse a call), so that every attempt passes all of them and is
//! recorded separately. The layer follows the recovery hints of a server within the caller's own limits:
//!
//! | rule | |
//! |---|---|
//! | retryable errors | a call is retried only if its error has `retryable: true` |
//! | calls that may have run | 1000–1003, 1010, 1011, 2000–2002, 3000–3002 and 4000–4003 mean that a call never started, unless `details.started` is true; after other errors a tool is retried only if its definition declares it read-only or idempotent, or the caller allows it ([`RetryConfig::repeat`]), or the call had an idempotency key and its server keeps keys ([`RetryConfig::keys`]) |
//! | dangerous and irreversible | such a tool is retried only if the caller allows it |
//! | partial results | after a chunk was delivered a call is not retried; after any other item it counts as started |
//! | waits | at least `retry_after_ms`, by `retry_strategy`; a wait longer than [`RetryConfig::max_wait`], or than what is left of the deadline or of [`RetryConfig::total_timeout`], is not begun |
//! | retries | the smaller of `max_retries` and [`RetryConfig::max_retries`], within [`RetryConfig::budget`] |
//! | `fallback_tool` | after the last retry: one call of another tool of the server, which must be listed and no more dangerous |
//! | circuit breaker | calls to a server that was unreachable several times in a row are refused for a while ([`RetryConfig::circuit`]) |
//!
//! A call that the circuit breaker refuses with code 5002 (upstream unavailable) does not reach any gate, so it gets no
//! audit record. For a call that succeeds, the layer costs a clone of the call, about 1,800 instructions, but no box
//! and no timer.
//!
//! The layer retries tool calls and requests that only read: lists, resources, prompts, completion. It passes on
//! everything else unchanged: notifications, the handshake, pings, and the methods of tasks and of MGP.

mod attempt_key;
mod budget;
mod circuit;
mod config;
mod decide;
mod delivery;
mod failure;
mod fallback;
mod future;
mod layer;
mod retries;
mod retryable_call;
mod server;
#[cfg(test)]
mod tests;
mod tool_list;
mod tools;

pub(crate) use attempt_key::AttemptKey;
pub use budget::RetryBudget;
pub use circuit::CircuitConfig;
pub use config::{AttemptReport, FallbackPolicy, KeyPolicy, RetryConfig};
pub(crate) use failure::Failure;
pub use layer::{Retry, RetryLayer};
pub use tools::{RepeatPolicy, ToolRetryInfo};
