//! Configuration, registry and registration of Model General Protocol servers (MGP §15).
//!
//! - `mgp.toml` is read into a [`Config`]; [`KEYS`] is the table of all its keys.
//! - [`Sources`] finds the configuration files; [`Trust`] decides whether a project's file is used.
//! - [`Expander`] replaces `${…}`, and keeps the resulting secrets out of messages and logs.
//! - [`ConfigChange`] is the difference between two configurations; [`ConfigWatcher`] reports when a file changed.
//! - [`import`] reads the files of other hosts.
//! - [`list_router`] answers requests for the list of servers with those that the caller can see.
//! - [`read_manifest`] and [`read_registry`] read descriptions of servers that were not yet started or added.
//! - [`Registrations`] contains the servers that were registered at run time; they run after an operator approved their
//!   programs.

mod change;
mod config;
mod error;
mod expand;
pub mod import;
mod line_ends;
mod manifest;
mod registration;
mod registry;
mod source;
mod version_shim;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use change::{ChangeEffect, ChangedServer, ConfigChange, ConfigWatcher, Reloaded};
pub use config::{
    AgentConfig, AuditFsync, AuditLogConfig, AuditSinkConfig, AuthConfig, AuthGrant, CallLimits,
    CallTimeouts, Config, ConfigErrors, ConfigFinding, ConfigKey, ConfineConfig, ConfirmLevel,
    DpopUse, EmailConfig, FindingSeverity, GovernanceConfig, HttpAccessConfig, Isolation, KEYS,
    KernelConfig, KeyKind, LearnFrom, LoginScope, NotifyConfig, NotifyWay, OnUngranted,
    OperatorProof, ParsedConfig, PortRights, ProxyConfig, QuietHours, RecordedArguments,
    ReferencesConfig, RegistrationAllowList, RestartConfig, ResultLimits, ResultsConfig,
    RetryCallsConfig, SearchConfig, ServerConfig, ServerLimits, SinkHeaders, StoredQueries,
    Surface, TargetConfig, TelemetryConfig, TokenConfig, TokenTenant, ToolBudgetConfig,
    ToolCreationConfig, WebhookConfig, config_markdown, config_schema, limits, nearest,
    parse_duration, path_in,
};
pub use error::DiscoveryError;
pub use expand::{
    ClearSecret, ConfinedCode, ExpandError, Expanded, ExpandedServer, ExpandedTarget, Expander,
    ProcessRights, SecretFile, SecretFileError, Template, TemplateError, clear_secrets,
    describe_target, looks_secret, named_variables, path_variable, private_folder, safe_path,
};
pub use line_ends::{keep_line_ends, line_end};
pub use manifest::{ManifestError, RegistryServer, read_manifest, read_registry};
pub use registration::{
    ApprovedRegistration, CodeJudge, CodeVerdict, IdHolder, JudgedScript, PendingRegistration,
    PublishedEntry, RegistrationConfig, RegistrationError, Registrations, RegistrationsBuilder,
    RegistryOrigin, ServerRunner, changes_code, code_arguments,
};
pub use registry::{KnownServer, ServerCatalog, list_router};
pub use source::{
    LoadedConfig, Origin, ProjectReview, ReviewedServer, Sources, Trust, TrustApproval,
    UnapprovedProject, settings,
};
pub use version_shim::VersionShim;
