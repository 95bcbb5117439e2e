//! Tests of every error code on the wire, for peers that negotiated MGP and for plain ones (MGP §14).
//!
//! `docs/errors.md` has a row for each code, which names the test of the code in this folder; `page.rs` compares the
//! two.

mod expected_error;
mod external;
mod gateway;
mod held_tool;
mod http;
mod jsonrpc;
mod lifecycle;
mod page;
mod params;
mod peer;
mod registration;
mod resource;
mod security;
mod validation;
