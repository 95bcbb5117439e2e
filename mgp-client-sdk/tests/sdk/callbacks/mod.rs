//! Tests of callbacks, i.e. of questions that a server asks while a call runs, in both eras and over each transport
//! (MGP §13.4).

mod bridged;
mod hop;
mod rules;
mod terminal;
mod world;
