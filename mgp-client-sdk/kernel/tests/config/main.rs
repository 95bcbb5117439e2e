//! Tests of the keys of `mgp.toml`, and of their effects in a kernel (MGP §15.2).

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "tests")]

mod agents;
mod govern;
mod reload;
mod results;
#[path = "../../../tests/http/script.rs"]
#[expect(dead_code, reason = "other stories of the same server need all of it")]
mod script;
mod servers;
mod times;
mod urls;
mod world;
