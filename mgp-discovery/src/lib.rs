//! Configuration, registry and registration of Model General Protocol servers (MGP §15).
//!
//! - `mgp.toml` is read into a [`Config`]; [`KEYS`] is the table of all its keys.
//! - [`Sources`] finds the files that are read; [`Trust`] decides whether the file of a project is used.
//! - [`Expander`] replaces `${…}`, and keeps the resulting secrets out of messages.
//! - [`Change`] is the difference between two configurations; [`Reload`] reports when a file changed.
//! - [`import`] reads the files of other hosts.
//! - [`list_router`] lists the servers a caller may use.
//! - [`Registrations`] holds the servers registered at run time, after an operator approved what they run.

mod change;
mod config;
mod error;
mod expand;
pub mod import;
mod registration;
mod registry;
mod source;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use change::{Change, ChangeEffect, Changed, Reload, Reloaded};
pub use config::{
    Agent, Audit, Budget, Config, Confirm, Faults, Finding, Fsync, Isolation, KEYS, Kernel, Key,
    Kind, Parsed, Reach, RecordedArguments, Restart, Server, ServerMgp, Severity, ToolCreation,
    config_markdown, config_schema, limits, nearest,
};
pub use error::Error;
pub use expand::{
    BadTemplate, ClearSecret, Expanded, ExpandedServer, ExpandedTarget, Expander, NotExpanded,
    Template, clear_secrets,
};
pub use registration::{
    Approved, IdHolder, Judge, RegistrationConfig, RegistrationError, Registrations,
    RegistrationsBuilder, Script, Servers, Verdict, Waiting,
};
pub use registry::{Fleet, Known, list_router};
pub use source::{
    Approval, Loaded, Origin, Review, Reviewed, Sources, Trust, Unapproved, settings,
};
