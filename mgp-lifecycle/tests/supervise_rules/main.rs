//! Tests of the rules of supervision, in virtual time (MGP §11.5).

mod driver;
mod policies;
mod properties;
mod requests;
mod restarts;
mod starts;
mod world;
