//! Tests of attacks on governance by an agent, by a server, and through an operator's mistakes (MGP §3–§6).

mod agent;
mod broken;
mod hop;
mod raw;
mod server;
mod storm;
mod waiting;
mod world;
