//! Tests of every error code in messages, for peers that negotiated MGP and for plain peers (MGP §14).
//!
//! `docs/errors.md` has a row for each code, which names the test of the code in this folder. `page.rs` compares the
//! page with the tests.

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
