//! Finding and requesting tools, as a model does that knows only its tool list (MGP §16.5, §16.6).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod creating;
mod made;
mod mode_a;
mod mode_b;
mod model;
mod offers;
#[path = "../world/stdio.rs"]
mod world;
