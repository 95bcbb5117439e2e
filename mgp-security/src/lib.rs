//! Who may use which tool, what a server may do, who confirms a call, and the record of it all, as tower layers
//! (MGP §3–§7).
//!
//! [`Governance`] is all of it in one piece: the books and their layers in the order that works. Each layer also stands
//! alone, on either side of the wire. `docs/governance.md` is the guide, [`prelude`] what most programs need.
//!
//! | Layer | What it does | What it decides from |
//! |---|---|---|
//! | [`TraceLayer`] | opens a span around each call | – |
//! | [`AuditLayer`] | records each call once, and runs none that cannot be recorded | an [`AuditSink`](mgp_types::service::AuditSink), such as [`AuditLog`] |
//! | [`KernelToolsLayer`] | answers methods of operators that are called as tools | a [`Router`](mgp_types::service::Router) |
//! | [`AccessLayer`] | lets an agent use a tool, and see it (§5) | [`Access`] |
//! | [`DefinitionLayer`] | lets a tool be used as long as it is what was approved (§4) | [`Definitions`] |
//! | [`PermissionLayer`] | lets a call go to a server that has what the tool needs (§3) | [`Permissions`], and an [`Assessment`] |
//! | [`ValidateLayer`] | checks arguments, and blocks what it cannot check (§4.5) | checks that [`Validate`], and an [`Assessment`] |
//! | [`ConfirmLayer`] | runs a dangerous call once somebody confirmed it (§4.4) | [`Confirmations`], and an [`Assessment`] |
//! | `auth::AuthLayer` | turns a key or token into a principal, on an HTTP service | keys, or the keys of an issuer |
//!
//! - [`Policies`] is the operator's word on each server; nothing else loosens a rule.
//! - An [`Approver`] is asked where the rules leave it to somebody: [`Elicit`], [`Terminal`], [`Configured`], [`First`].
//! - [`Forwarder`], [`Replay`] and [`Ingest`] bring events to sinks, back, and in from servers; [`Event`] makes them.
//! - [`Refusal`] is every reason for which a call does not run, and the one place where it becomes a code.
//!
//! Features: `auth` (API keys and access tokens, for HTTP servers), `sqlite` (governance in a folder; SQLite is compiled
//! in, which takes a C compiler).
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
mod hooks;
mod permission;
mod policy;
pub mod prelude;
mod state;
mod still;
mod tool;
mod trace;

pub use access::{
    Access, AccessDenied, AccessLayer, Decided, Entry, Gated, Groups, KernelTools,
    KernelToolsLayer, NotOperator, PassEnded,
};
pub use approval::{
    About, ApprovalRequest, Approver, Configured, Decision, DecisionSource, Elicit, First, Inbox,
    InboxConfig, Question, RequestState, Terminal,
};
pub use audit::{
    Arguments, Audit, AuditConfig, AuditLayer, AuditLog, AuditPage, AuditQuery, BadRecord,
    Delivery, DigestKey, Event, EventActor, EventSource, Flagged, Forwarder, Forwarding, Fsync,
    Head, Ingest, Keep, LogConfig, LogError, LogFiles, RecordFlaw, Replay, UnknownSink, verify,
};
pub use definition::{
    DecisionRefused, Definition, DefinitionLayer, DefinitionRefused, Definitions, Difference,
    Finding, Held, Inspection, NameFlaw, Severity, Standing, Waiting,
};
pub use error::{LongName, Refusal};
pub use governance::{
    Administration, Bypass, GovernLayer, Governance, GovernanceBuilder, Governed,
};
pub use hooks::Listening;
pub use permission::{
    Approval, ApprovalDecision, ApprovalSource, GrantStanding, Grants, Missing, MissingStatus,
    PermissionChange, PermissionGate, PermissionLayer, PermissionRefused, Permissions,
};
pub use policy::{ConfirmFrom, ConfirmRule, Policies, ServerPolicy};
pub use state::ChangeError;
pub use still::StillGate;
pub use tool::{
    Assess, Assessment, Confirm, ConfirmConfig, ConfirmLayer, ConfirmRefused, Confirmations, Named,
    Naming, Unconfirmed, Validate, ValidateLayer, Validated, ValidationBlocked, Violation,
    derive_hints,
};
pub use trace::{Trace, TraceLayer};

#[cfg(feature = "sqlite")]
pub use self::governance::FolderError;
