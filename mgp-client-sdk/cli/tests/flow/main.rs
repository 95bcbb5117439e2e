//! Finding a tool and asking for one, as a model does that sees nothing but its list of tools (MGP §16.5, §16.6).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod creating;
mod made;
mod mode_a;
mod mode_b;
mod model;
mod offers;
mod world;
