//! The keys of `mgp.toml` and their meaning (MGP §15.2).
//!
//! `keys.rs` lists all keys. `parse.rs` reads a file into the types of `model.rs`, one table at a time with the reader
//! of `table_reader.rs`; the larger tables have a file each. `kind.rs` and `addresses.rs` check values.
//! `remedy.rs` has the remedies for usual mistakes.

mod addresses;
mod audit;
mod auth;
mod bounds;
mod confine;
mod describe;
mod finding;
mod http;
mod keys;
mod kind;
pub mod limits;
mod local_hosts;
mod model;
mod nearest;
mod notify;
mod parse;
mod references;
mod remedy;
mod retry;
mod search;
mod table_reader;
mod telemetry;
mod tenants;
#[cfg(test)]
mod tests;
mod timeouts;
mod webhook;

pub(crate) use addresses::Address;
pub use audit::{AuditFsync, AuditLogConfig, AuditSinkConfig, RecordedArguments, SinkHeaders};
pub use auth::{AuthConfig, AuthGrant, DpopUse, LoginScope};
pub use bounds::{CallLimits, ResultLimits, ResultsConfig, ServerLimits, Surface};
pub use confine::{ConfineConfig, PortRights};
pub use describe::{config_markdown, config_schema};
pub use finding::{ConfigErrors, ConfigFinding, FindingSeverity};
pub use http::{HttpAccessConfig, TokenConfig, TokenTenant};
pub use keys::{ConfigKey, KEYS};
pub use kind::{KeyKind, parse_duration};
pub(crate) use model::LocalFiles;
pub use model::{
    AgentConfig, Config, ConfirmLevel, GovernanceConfig, Isolation, KernelConfig, OnUngranted,
    OperatorProof, ProxyConfig, RegistrationAllowList, ServerConfig, TargetConfig,
    ToolBudgetConfig, ToolCreationConfig,
};
pub use nearest::nearest;
pub use notify::{EmailConfig, NotifyConfig, NotifyWay, QuietHours};
pub use parse::ParsedConfig;
pub(crate) use parse::valid_id;
pub use references::ReferencesConfig;
pub use retry::{RestartConfig, RetryCallsConfig};
pub use search::{LearnFrom, SearchConfig, StoredQueries};
pub use telemetry::TelemetryConfig;
pub use timeouts::CallTimeouts;
pub use webhook::WebhookConfig;

/// Converts the value of a key to a path: `~/…` is relative to the home directory, other relative paths to `folder`.
#[must_use]
pub fn path_in(folder: &std::path::Path, text: &str) -> std::path::PathBuf {
    match (text.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => folder.join(text),
    }
}
