//! Every key of `mgp.toml` and its effect in a kernel (MGP §15.2).

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "tests")]

mod agents;
mod govern;
mod reload;
mod servers;
mod times;
mod urls;
mod world;
