//! Callbacks: a server asks back while a call runs, in both eras and over each transport (MGP §13.4).

mod bridged;
mod hop;
mod rules;
mod terminal;
mod world;
