//! What a server is told of its permissions, and when: both spellings, both eras, one module a story (MGP §3.4–§3.6).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod asked;
mod book;
mod cells;
mod changes;
mod modern;
mod patience;
mod plain;
mod told;

#[path = "../client/script.rs"]
#[expect(dead_code, reason = "other stories of the same server need all of it")]
mod script;
