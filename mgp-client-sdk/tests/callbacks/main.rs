//! Callbacks: a server asks back while a call runs, in both eras and over each transport (MGP §13.4).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bridged;
mod hop;
mod rules;
mod terminal;
mod world;
