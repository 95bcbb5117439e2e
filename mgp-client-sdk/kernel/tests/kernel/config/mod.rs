//! Tests of the keys of `mgp.toml`, and of their effects in a kernel (MGP §15.2).

#![cfg(unix)]

mod agents;
mod govern;
mod reload;
mod results;
mod servers;
mod times;
mod urls;
mod world;
