//! Events reach subscribers over each transport and in both eras (MGP §13).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod stories;
mod wire;
