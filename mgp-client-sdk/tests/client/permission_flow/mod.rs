//! Notifications of a server about its permissions: both spellings, both eras, one module a topic (MGP §3.4–§3.6).

mod authority;
mod changes;
mod eras;
mod legacy;
mod modern;
mod plain;
mod requests;
mod unresponsive;
