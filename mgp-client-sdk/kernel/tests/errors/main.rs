//! Every error code as bytes: what a peer that speaks MGP hears, and what a plain one hears instead (MGP §14).
//!
//! `docs/errors.md` has a row for each code and names its test here; `page.rs` holds both together.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod external;
mod gateway;
mod heard;
mod held;
mod http;
mod jsonrpc;
mod lifecycle;
mod page;
mod peer;
mod registration;
mod resource;
#[path = "../../../tests/http/script.rs"]
#[expect(dead_code, reason = "other stories of the same server need all of it")]
mod script;
mod security;
mod validation;
