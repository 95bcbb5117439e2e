//! Tests of the messages by which a client notifies a server of its permissions, with both sets of method names and in
//! both eras; one module for each topic (MGP §3.4–§3.6).

mod authority;
mod changes;
mod eras;
mod legacy;
mod modern;
mod plain;
mod requests;
mod unresponsive;
