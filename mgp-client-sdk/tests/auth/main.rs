//! Stories of a client that is authorised by OAuth 2.1, told against a scripted world.

mod binding;
mod discover;
mod machines;
mod people;
mod renewing;
mod secrets;
mod world;
