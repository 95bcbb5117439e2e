//! All commands except `serve`: one file per group, with the options, the output and the function `run`.

pub(crate) mod access;
pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod completions;
pub(crate) mod connect;
pub(crate) mod doctor;
pub(crate) mod events;
mod grant;
pub(crate) mod import;
pub(crate) mod index;
pub(crate) mod init;
pub(crate) mod kernel;
pub(crate) mod keys;
mod known_names;
mod login;
pub(crate) mod operator;
pub(crate) mod permissions;
mod probe;
pub(crate) mod secrets;
pub(crate) mod servers;
pub(crate) mod tools;
pub(crate) mod trust;
pub(crate) mod webhooks;
pub(crate) mod why;
