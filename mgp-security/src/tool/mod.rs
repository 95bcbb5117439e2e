//! Tool security: the risk of tools, their confirmations, and the checks of their arguments (MGP §4).
//!
//! `assessment.rs` computes the risk of a tool, with the signals of `risk_signals.rs`; `confirm/` handles
//! confirmations; `validators.rs` and `argument_schema.rs` check arguments.

mod annotate;
#[cfg(feature = "schemas")]
mod argument_schema;
mod assess;
mod assessment;
mod confirm;
#[cfg(feature = "validators")]
mod proposal;
mod reason;
mod risk_signals;
#[cfg(feature = "validators")]
mod script;
#[cfg(feature = "validators")]
mod standard;
mod validators;
mod version;
mod words;

pub use annotate::derive_hints;
#[cfg(feature = "schemas")]
pub(crate) use argument_schema::ToolSchemas;
#[cfg(feature = "schemas")]
pub use argument_schema::{ArgumentsRefused, ResultRefused, SchemaViolation, argument_errors};
pub use assess::Assess;
pub use assessment::Assessment;
pub use confirm::{
    ConfirmConfig, ConfirmRefused, Confirmations, NamedTool, NamedTools, Unconfirmed,
};
pub(crate) use confirm::{RiskyCall, note, with_reference};
#[cfg(feature = "validators")]
pub(crate) use proposal::proposed_risk;
#[cfg(feature = "validators")]
pub use standard::StandardValidators;
pub(crate) use validators::Validators;
pub use validators::{CheckedCall, KernelUrls, Validate, ValidationBlocked, Violation};
pub use version::{VersionRefused, check_version};

#[cfg(test)]
mod tests;
