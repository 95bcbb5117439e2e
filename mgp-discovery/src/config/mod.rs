//! The keys of `mgp.toml` and their meaning (MGP §15.2).

mod auth;
mod bounds;
mod describe;
mod finding;
mod keys;
mod kind;
pub mod limits;
mod model;
mod nearest;
mod parse;
mod reader;
#[cfg(test)]
mod tests;
mod webhook;

pub use auth::{AuthConfig, AuthGrant, DpopUse, LoginScope};
pub use bounds::{CallLimits, ResultLimits, ResultsConfig, ServerLimits, Surface};
pub use describe::{config_markdown, config_schema};
pub use finding::{ConfigErrors, ConfigFinding, FindingSeverity};
pub use keys::{ConfigKey, KEYS};
pub use kind::{KeyKind, parse_duration};
pub(crate) use model::LocalFiles;
pub use model::{
    AgentConfig, AuditFsync, AuditLogConfig, CallTimeouts, Config, ConfirmLevel, GovernanceConfig,
    Isolation, KernelConfig, OnUngranted, OperatorProof, ProxyConfig, RecordedArguments,
    RegistrationAllowList, RestartConfig, ServerConfig, TargetConfig, ToolBudgetConfig,
    ToolCreationConfig,
};
pub use nearest::nearest;
pub use parse::ParsedConfig;
pub(crate) use parse::valid_id;
pub use webhook::WebhookConfig;
