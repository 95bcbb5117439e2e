//! Permissions, tool security, access and audit for the Model General Protocol, as tower layers (MGP §3–§7).
//!
//! Features: `auth` (API keys and access tokens, for HTTP servers), `sqlite` (grants in a file).
//!
//! Applies to: both.

mod access;
mod approval;
mod audit;
#[cfg(feature = "auth")]
pub mod auth;
mod definition;
mod error;
mod governance;
mod permission;
mod policy;
mod state;
mod tool;
mod trace;

pub use access::{
    Access, AccessDenied, AccessLayer, Decided, Entry, Gated, Groups, KernelTools,
    KernelToolsLayer, NotOperator, PassEnded,
};
pub use approval::{
    About, Approver, Configured, Decision, DecisionSource, Elicit, First, Question, Terminal,
};
pub use audit::{
    Arguments, Audit, AuditConfig, AuditLayer, AuditLog, AuditPage, AuditQuery, Bad, Delivery,
    DigestKey, Event, EventSource, Flagged, Flaw, Forwarder, Forwarding, Fsync, Head, Ingest, Keep,
    LogConfig, LogError, NotNamed, Replay, verify,
};
pub use definition::{
    DecisionRefused, Definition, DefinitionLayer, DefinitionRefused, Definitions, Difference,
    Finding, Held, Inspection, NameFlaw, Severity, Standing, Waiting,
};
pub use error::{Refusal, ReplayRefused};
pub use governance::{GovernLayer, Governance, GovernanceBuilder, Governed};
pub use permission::{
    Approval, ApprovalDecision, ApprovalSource, GrantStanding, Grants, Missing, MissingStatus,
    PermissionChange, PermissionGate, PermissionLayer, PermissionRefused, Permissions,
};
pub use policy::{ConfirmFrom, ConfirmRule, Policies, ServerPolicy};
pub use state::ChangeError;
pub use tool::{
    Assess, Assessment, Confirm, ConfirmConfig, ConfirmLayer, ConfirmRefused, Confirmations, Named,
    Naming, Unconfirmed, Validate, ValidateLayer, Validated, ValidationBlocked, Violation,
    derive_hints,
};
pub use trace::{Trace, TraceLayer};
