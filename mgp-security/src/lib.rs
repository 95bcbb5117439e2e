//! Access, permissions, confirmations and the audit log of tool calls, as tower layers
//! (MGP §3–§7).
//!
//! [`Governance`] combines all of it: it holds the state, and its layer applies all rules in one decision. Each
//! layer can also be used alone, in a client or a server. `docs/governance.md` is the guide; [`prelude`] exports
//! what most programs need.
//!
//! | Layer | What it does | What it decides from |
//! |---|---|---|
//! | [`TraceLayer`] | opens a span around each call | – |
//! | [`AuditLayer`] | records each call once, and refuses calls that cannot be recorded | an [`AuditSink`](mgp_types::service::AuditSink), such as [`AuditLog`] |
//! | [`KernelToolsLayer`] | answers tool calls that name a method for operators | a [`Router`](mgp_types::service::Router) |
//! | [`AccessLayer`] | lists and calls only the tools to which the caller has access (§5) | [`Access`] |
//! | [`DefinitionLayer`] | lists and calls tools only while their definition is the approved one (§4) | [`Definitions`] |
//! | [`PermissionLayer`] | passes a call on only if the server has the permissions that the tool needs (§3) | [`Permissions`], and an [`Assessment`] |
//! | [`ValidateLayer`] | checks arguments, and blocks calls that it cannot check (§4.5) | implementations of [`Validate`], and an [`Assessment`] |
//! | [`ConfirmLayer`] | runs a dangerous call only after it was confirmed (§4.4) | [`Confirmations`], and an [`Assessment`] |
//! | `auth::AuthLayer` | authenticates HTTP requests: converts a key or token to a principal | API keys, or the keys of an issuer |
//!
//! - [`CallVerdict`] is the decision about one call; [`Governance::explain`] returns it for a hypothetical call.
//! - [`Policies`] are the operator's policies for servers; no other configuration can make a rule less strict.
//! - [`Refusal`] lists every reason for which a call does not run, and is the only place where reasons are mapped to
//!   error codes.
//! - [`Forwarder`] sends audit events to sinks, [`Replay`] returns missed events, and [`Ingest`] receives events
//!   from servers; [`Event`] builds events.
//! - An [`Approver`] decides questions that the rules leave open: [`ElicitApprover`], [`TerminalApprover`],
//!   [`ConfiguredApprover`], [`ApproverChain`].
//!
//! Features: `auth` (API keys and access tokens for HTTP servers), `sqlite` (governance in a folder; compiles
//! SQLite from source, which requires a C compiler), `validators` (the module `guard`).

#![cfg_attr(docsrs, feature(doc_cfg))]

mod access;
mod approval;
mod audit;
#[cfg(feature = "auth")]
pub mod auth;
mod decision;
mod definition;
mod entries;
mod error;
mod gate;
mod governance;
#[cfg(feature = "validators")]
pub mod guard;
mod hooks;
mod permission;
mod policy;
pub mod prelude;
mod scope;
mod state;
mod tool;
mod trace;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use access::{
    Access, AccessDecision, AccessDenied, CredentialsExpired, Delegation, Entry, Groups,
    KernelToolsLayer, KernelToolsService, NotOperator,
};
pub use approval::{
    AnswerPlace, ApprovalRequest, ApprovalTerm, Approver, ApproverChain, CallApproval,
    CallApprovals, CallerConfirm, CallerConfirmLayer, ConfiguredApprover, Decision, DecisionSource,
    ElicitApprover, Inbox, InboxConfig, Question, QuestionSubject, RequestState, TerminalApprover,
};
pub use audit::{
    Arguments, Audit, AuditConfig, AuditLayer, AuditLog, AuditPage, AuditQuery, BadRecord,
    DefinitionFlag, Delivery, DigestKey, Event, EventActor, EventSource, FileRetention, Forwarder,
    Forwarding, Fsync, Ingest, LogConfig, LogError, LogFiles, LogHead, RESULT_WORDS, RecordFlaw,
    Replay, UnknownSink, result_word, verify,
};
pub use decision::{CallOutcome, CallVerdict, Requirement, Stage, Step, StepResult};
pub use definition::{
    DecisionRefused, DefinitionRefused, DefinitionState, Definitions, Difference, Finding,
    HeldDefinition, Inspection, NameFlaw, PendingDefinition, Severity, review_text,
};
pub use error::{LongName, Refusal};
pub use gate::{
    AccessLayer, ConfirmLayer, DecideOnly, DecisionService, DefinitionLayer, PermissionLayer,
    ValidateLayer,
};
pub use governance::{
    Administration, GovernLayer, Governance, GovernanceBuilder, Governed, ServerHoldings,
    TenantHoldings,
};
pub use hooks::HookState;
pub use permission::{
    Approval, ApprovalDecision, ApprovalSource, GrantState, Grants, MissingPermission,
    MissingStatus, PermissionChange, PermissionRefused, Permissions, scope_words,
};
pub use policy::{ConfirmFrom, ConfirmRule, Policies, ServerPolicy};
pub use scope::{ScopeLayer, ScopeService, Scopes, ScopesMissing, SessionEnded};
pub use state::ChangeError;
#[cfg(feature = "validators")]
pub use tool::StandardValidators;
#[cfg(feature = "schemas")]
pub use tool::{ArgumentsRefused, ResultRefused, SchemaViolation, argument_errors};
pub use tool::{
    Assess, Assessment, CheckedCall, ConfirmConfig, ConfirmRefused, Confirmations, KernelUrls,
    NamedTool, NamedTools, Unconfirmed, Validate, ValidationBlocked, VersionRefused, Violation,
    check_version, derive_hints,
};
pub use trace::{TraceLayer, TraceService};

#[cfg(feature = "sqlite")]
pub use self::governance::{DeferredAudit, FolderError};
