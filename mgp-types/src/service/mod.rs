//! The service type that every layer implements, and the values that pass through it.
//!
//! Every section of the protocol is a tower layer over `Service<Call, Response = Reply, Error = RpcError>`.
//! Requests and notifications are both [`Call`]s. The [`Peer`] at the end of an outbound stack is such a service too,
//! so a layer works on either side.

mod ask_check;
mod audit;
mod call;
mod caller_access;
mod caller_trace;
mod credential_grant;
mod deadline;
mod either;
mod extensions;
mod fetch;
mod gate;
mod header_params;
mod header_plan;
mod header_target;
mod header_value;
mod hop;
mod http_failure;
mod joined_content;
mod keep_alive;
mod key;
mod loopback;
mod message;
mod method;
pub mod mock;
mod outlet;
mod params;
mod peer;
mod peer_info;
mod permission_authority;
mod principal;
mod question;
mod ready_per_call;
mod recheck;
mod reply;
mod retry_attempt;
mod router;
mod rule;
mod scope;
mod session_replay;
mod shown_url;
mod spawn;
mod stack;
mod stream_limit;
mod tool_error;
mod trace;
mod visibility;
mod wait_mark;
mod wire_rules;
mod write;

use std::future::Future;
use std::pin::Pin;

pub use crate::method::Kind;
pub use ask_check::AskCheck;
pub use audit::{
    ArgumentsDigest, AuditError, AuditFuture, AuditOutcome, AuditSink, CallRecord, DigestForm,
    EndedCall, MemoryAudit, SuspendedCalls, Ticket, TicketSink,
};
pub use call::{Call, Context, ToolCall};
pub use caller_access::{CallerAccess, CallerChannel, RoundState, Rounds};
pub use caller_trace::CallerTrace;
pub use credential_grant::CredentialGrant;
pub use deadline::Deadline;
pub use either::Either;
pub use extensions::Extensions;
pub use fetch::{Fetch, FetchError, FetchRequest, FetchResponse, SharedFetch};
pub use gate::{AroundLayer, Gate, GateLayer, around, gate};
pub use header_params::HeaderParams;
pub use header_plan::{HeaderMismatch, HeaderPlan, HeaderPlanError};
pub use header_target::HeaderTarget;
pub use header_value::{decode_header, encode_header};
pub use hop::HopMembers;
pub use http_failure::HttpFailure;
pub use joined_content::JoinedContent;
pub use keep_alive::keep_alive;
pub use key::{CallKey, TraceSpan};
pub use loopback::is_loopback_host;
pub use message::{CutMessage, InvalidMessage, Message, write_answer, write_call};
pub use method::Method;
pub use outlet::{Chunk, ConsumerGone, Outlet, OutletItem, OutletItemKind, Progress, Sink};
pub use params::{MetaKey, Params, Target};
pub use peer::{
    InFlight, Inbox, ItemReceiver, Link, Peer, QueueRoom, connection_closed, connection_lost,
    is_connection_lost,
};
pub use peer_info::{AcceptedRequests, PeerInfo};
pub use permission_authority::PermissionAuthority;
pub use principal::{AgentId, Authority, PeerProcess, Principal, ServerId, Subject, TenantId};
pub use question::{
    CallerRequest, InputRequired, contains_result_type, is_clearly_complete, leading_result_type,
    result_type,
};
pub use ready_per_call::{ReadyPerCall, ReadyPerCallService};
pub use recheck::Recheck;
pub use reply::{Body, Reply};
pub use retry_attempt::RetryAttempt;
pub use router::{RoutedService, Router, RouterLayer};
pub use rule::Rule;
pub use scope::{EndGuard, Scope, ScopeId, ScopeKind};
pub use session_replay::{SessionReplay, SessionReplayFn};
pub use shown_url::{shown_origin, shown_url};
pub use spawn::{Exit, Spawn, SpawnError, Spawned};
pub use stack::{MgpService, Stack, WeakStack};
pub use stream_limit::StreamLimit;
pub use tool_error::is_tool_error;
pub use visibility::{AllVisible, Hidden, Visibility, visibility};
pub use wait_mark::WaitMark;
pub use wire_rules::WireRules;

/// A boxed future that can be sent to other threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
