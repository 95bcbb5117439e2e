//! Tests of finding and requesting tools, with a scripted model that knows only its tool list (MGP §16.5, §16.6).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod confined;
mod created;
mod creating;
mod extensions;
#[expect(dead_code, reason = "other tests use the rest of it")]
#[path = "../world/host.rs"]
mod host;
mod long;
mod made;
mod mode_a;
mod mode_b;
mod model;
mod offers;
#[expect(dead_code, reason = "other tests use the rest of it")]
#[path = "../commands/registry/place.rs"]
mod place;
mod published;
mod remote;
#[path = "../refusals/serving.rs"]
mod serving;
#[path = "../world/stdio.rs"]
mod world;
