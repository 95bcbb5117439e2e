//! Tests of the keys of `mgp.toml`, and of their effects in a kernel (MGP §15.2).

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "tests")]

mod agents;
mod govern;
mod reload;
mod servers;
mod times;
mod urls;
mod world;
