//! Servers that are registered while the kernel runs (MGP §15.4, §15.5).
//!
//! A registration is asked for (`ask.rs`, `program.rs`), judged, decided about by an operator (`register.rs`, `review.rs`),
//! kept (`record.rs`, `book.rs`), and from then on started as it was approved (`launch.rs`) until it is taken back
//! (`deregister.rs`); `work.rs` does what takes long.
//!
//! Applies to: inbound.

mod ask;
mod book;
mod config;
mod deregister;
mod event;
mod judging;
mod launch;
mod pace;
mod program;
mod record;
mod refused;
mod register;
mod review;
mod router;
mod servers;
mod source;
#[cfg(test)]
mod tests;
mod who;
mod work;

pub(crate) use ask::changes_code;
pub use book::{Registrations, RegistrationsBuilder};
pub use config::RegistrationConfig;
pub use refused::{Holder, RegistrationRefused};
pub use review::Waiting;
pub use servers::{Approved, Judge, Script, Servers, Verdict};
