//! The service type of every layer, and the values that pass through it.
//!
//! Every section of the protocol is a tower layer over `Service<Call, Response = Reply, Error = RpcError>`.
//! Requests and notifications are both [`Call`]s. The [`Peer`] at the end of an outbound stack is such a service too,
//! so a layer works on either side.

mod ask;
mod at_call;
mod attempt;
mod audit;
mod call;
mod context;
mod deadline;
mod either;
mod extensions;
mod facts;
mod fetch;
mod gate;
mod grantor;
mod header_params;
mod header_plan;
mod header_target;
mod header_value;
mod hop;
mod http_fault;
mod key;
mod loopback;
mod message;
mod method;
pub mod mock;
mod outlet;
mod params;
mod pass;
mod peer;
mod principal;
mod reply;
mod router;
mod rule;
mod scope;
mod shown_url;
mod spawn;
mod stack;
mod trace;
mod visibility;
mod waited;
mod wire_rules;

use std::future::Future;
use std::pin::Pin;

pub use crate::method::Kind;
pub use ask::{Ask, Asker, Asking, RoundState, Rounds};
pub use at_call::{AtCall, AtCallService};
pub use attempt::Attempt;
pub use audit::{
    AuditSink, Audited, DigestOf, Digested, Ended, Ledger, MemoryAudit, Outcome, Start, Suspended,
    Ticket, Unaudited,
};
pub use call::{Call, ToolCall};
pub use context::Context;
pub use deadline::Deadline;
pub use either::Either;
pub use extensions::Extensions;
pub use facts::{Asks, Facts};
pub use fetch::{Fetch, FetchError, FetchRequest, Fetched, Fetcher};
pub use gate::{AroundLayer, Gate, GateLayer, around, gate};
pub use grantor::Grantor;
pub use header_params::HeaderParams;
pub use header_plan::{BadHeaderPlan, HeaderMismatch, HeaderPlan};
pub use header_target::HeaderTarget;
pub use header_value::{decode_header, encode_header};
pub use hop::OutMeta;
pub use http_fault::HttpFault;
pub use key::CallKey;
pub use loopback::is_loopback_host;
pub use message::{BadMessage, Message, write_answer, write_call};
pub use method::Method;
pub use outlet::{Gone, Item, ItemKind, Outlet, Progress, Sink};
pub use params::{MetaKey, Params, Target};
pub use pass::Pass;
pub use peer::{InFlight, Inbox, Link, Mailslot, Peer, Room, closed, is_lost, lost};
pub use principal::{AgentId, Authority, Principal, ServerId, Subject, TenantId};
pub use reply::{Body, InputRequired, Reply, result_type};
pub use router::{Routed, Router, RouterLayer};
pub use rule::Rule;
pub use scope::{EndGuard, Scope, ScopeId, ScopeKind};
pub use shown_url::shown_url;
pub use spawn::{Exit, Spawn, SpawnError, Spawned};
pub use stack::{MgpService, Stack};
pub use visibility::{Everyone, Hidden, Visibility, visibility};
pub use waited::Waited;
pub use wire_rules::WireRules;

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
