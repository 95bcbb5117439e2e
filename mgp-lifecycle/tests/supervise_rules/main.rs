//! The rules of supervision, each in virtual time (MGP §11.5).
//!
//! Applies to: outbound.

mod driver;
mod people;
mod policies;
mod properties;
mod restarts;
mod starts;
mod world;
