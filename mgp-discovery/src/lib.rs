//! Configuration, registry and registration of Model General Protocol servers (MGP §15).
//!
//! - `mgp.toml` is read into a [`Config`]; [`KEYS`] is the table of all that may be written there.
//! - [`Sources`] knows which files count, [`Trust`] whether the one of a project does.
//! - [`Expander`] fills in `${…}`, and keeps what comes out of it from being shown.
//! - [`Change`] is what differs between two configurations, [`Reload`] tells when a file changed.
//! - [`import`] reads the files of other hosts.
//! - [`list_router`] tells callers which servers they may use.
//! - [`Registrations`] are the servers that are registered while others run, once an operator approved what they run.
//!
//! Applies to: both.

mod change;
mod config;
mod error;
mod expand;
pub mod import;
mod registration;
mod registry;
mod source;

pub use change::{Change, Changed, Effect, Reload, Reloaded};
pub use config::{
    Agent, Audit, Budget, Config, Confirm, Faults, Finding, Fsync, Isolation, KEYS, Kernel, Key,
    Kind, Parsed, Reach, RecordedArguments, Restart, Server, ServerMgp, Severity, ToolCreation,
    config_markdown, config_schema, limits, nearest,
};
pub use error::Error;
pub use expand::{
    BadTemplate, ClearSecret, Expanded, ExpandedReach, ExpandedServer, Expander, NotExpanded,
    Template, clear_secrets,
};
pub use registration::{
    Approved, Holder, Judge, RegistrationConfig, RegistrationRefused, Registrations,
    RegistrationsBuilder, Script, Servers, Verdict, Waiting,
};
pub use registry::{Fleet, Known, list_router};
pub use source::{
    Approval, Loaded, Origin, Review, Reviewed, Sources, Trust, Unapproved, settings,
};
