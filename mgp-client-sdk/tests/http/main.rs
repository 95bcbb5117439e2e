//! Tests of servers at a URL: the requests of a client and its handling of responses, one module for each topic.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod broken;
mod cancel;
mod end_to_end;
mod era;
mod listening;
mod lost_session;
mod modern;
mod proofs;
mod refusals;
mod script;
mod session;
mod shares;
mod streams;
mod tasks;
mod tls;
