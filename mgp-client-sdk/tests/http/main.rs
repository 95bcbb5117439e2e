//! Servers at a URL: what a client says over HTTP and makes of what it hears, one module a story.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod broken;
mod era;
mod leaving;
mod listening;
mod lost;
mod modern;
mod ours;
mod proving;
mod refusals;
mod script;
mod session;
mod streams;
mod tasks;
mod tls;
