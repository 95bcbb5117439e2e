//! `mgp.audit.replay`: recorded events once more, for whoever may see all of them (later revisions of MGP §6; D4).
//!
//! Applies to: both.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mgp_types::mcp::CallToolResult;
use mgp_types::method::{AUDIT_REPLAY, Request, ToolsCall, method_of_tool};
use mgp_types::mgp::{AuditEvent, AuditReplayParams, AuditReplayResult};
use mgp_types::service::{AuditSink, Call, Context, Params, Reply, Router, Stack, Target};
use mgp_types::store::StoreError;
use mgp_types::{Payload, RpcError};

use super::super::source::EventSource;
use super::Forwarder;
use crate::access::{About, AdminCheck, Need};

/// How many events an answer has where nothing is said.
const USUAL: u64 = 100;

/// How many it has at most.
const MOST: u64 = 1000;

/// How large an answer gets before it stops with `has_more`: an answer is one line of the wire.
const BYTES: usize = 512 * 1024;

/// How far before a point in time the search begins: clocks go back, and a call is recorded when it has ended.
const SLACK: Duration = Duration::from_mins(1);

/// Answers `mgp.audit.replay` from a log.
///
/// `since_seq` gives the events after that number, `since_timestamp` those after that time; the number wins, and
/// without either the log is read from its beginning.
/// `limit` is 100 and at most 1,000. An answer also ends at half a mebibyte.
/// `has_more` tells whether there is more, and `next_seq` is the `since_seq` to go on with.
///
/// A receiver notices a gap by a number that is missing and closes it with this.
///
/// ```
/// use std::sync::Arc;
/// use mgp_security::{Event, Replay};
/// use mgp_types::mgp::Actor;
/// use mgp_types::method::AUDIT_REPLAY;
/// use mgp_types::service::{AuditSink, MemoryAudit, Principal, Stack, mock};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let log = MemoryAudit::new();
/// log.record(Event::policy_changed(Actor::kernel(), None).build()).await.unwrap();
///
/// let replay = Replay::new(Arc::new(log.clone()), Arc::new(log));
/// let mut client = mock::client(Stack::new(replay.router()));
/// assert_eq!(client.request(AUDIT_REPLAY, "{}").await.unwrap_err().code().0, 1000);
/// client.cx.principal = Principal::local().operator();
/// let answer = client.request(AUDIT_REPLAY, r#"{"since_seq":0}"#).await.unwrap();
/// assert!(answer.as_str().contains("dev.cloto.policy_changed"));
/// # });
/// ```
#[derive(Clone)]
#[must_use]
pub struct Replay(Arc<Inner>);

struct Inner {
    source: Arc<dyn EventSource>,
    audit: Arc<dyn AuditSink>,
}

/// Who stands at the other end.
#[derive(Clone, Copy, PartialEq)]
enum Door {
    /// Anybody: operators may.
    Open,
    /// A sink the operator named: it gets all events anyway.
    Sink,
}

impl Replay {
    /// Answers from a log; that somebody may not see it is told to a sink.
    pub fn new(source: Arc<dyn EventSource>, audit: Arc<dyn AuditSink>) -> Self {
        Self(Arc::new(Inner { source, audit }))
    }

    /// Answers operators whose credentials permit to read, under the name of the method.
    ///
    /// [`KernelToolsLayer`](crate::KernelToolsLayer) makes it a tool in all spellings, beside other tools.
    #[must_use]
    pub fn router(&self) -> Router {
        self.routes(Door::Open)
    }

    /// Answers a named sink on the connection to it, where it calls the tool of its client; nobody else may use that
    /// connection: it routes `tools/call`. For a sink nobody named, or where [`Forwarder`] forwards nothing, it is as [`router`](Self::router).
    #[must_use]
    pub fn router_for(&self, sink: &str, forwarder: &Forwarder) -> Router {
        let door = if forwarder.names(sink) { Door::Sink } else { Door::Open };
        let own = self.clone();
        self.routes(door).route(
            ToolsCall::METHOD,
            Stack::from_fn(move |call| {
                let own = own.clone();
                async move { own.answer_tool(door, call).await }
            }),
        )
    }

    /// Answers whoever reaches this router: it must be the one party that all events come from.
    ///
    /// It is for the sink itself, which tells its forwarder what it has.
    #[must_use]
    pub fn router_for_origin(&self) -> Router {
        self.routes(Door::Sink)
    }

    fn routes(&self, door: Door) -> Router {
        let own = self.clone();
        Router::new().route(
            AUDIT_REPLAY,
            Stack::from_fn(move |call| {
                let own = own.clone();
                async move {
                    let (_, params, cx) = call.into_parts();
                    Reply::of(&own.answer(door, &cx, &params).await?)
                }
            }),
        )
    }

    async fn answer_tool(&self, door: Door, call: Call) -> Result<Reply, RpcError> {
        let meant = match call.params().target() {
            Some(Target::Tool(name)) => method_of_tool(name),
            _ => None,
        };
        if meant.is_none_or(|tool| tool.name != AUDIT_REPLAY) {
            return Err(RpcError::invalid_params("there is no such tool"));
        }
        let params = Params::split(AUDIT_REPLAY, call.tool_arguments().as_shared().clone())?;
        let result = Payload::of(&self.answer(door, call.cx(), &params).await?)?;
        let mut answer = CallToolResult::text(result.as_str());
        answer.structured_content = Some(result);
        Reply::of(&answer)
    }

    async fn answer(
        &self,
        door: Door,
        cx: &Context,
        params: &Params,
    ) -> Result<AuditReplayResult, RpcError> {
        if door == Door::Open {
            let check = AdminCheck::of(cx);
            if let Err(refusal) = check.check(Need::Read, AUDIT_REPLAY, About::All) {
                let server = cx.server.as_ref();
                return Err(check
                    .record_refusal(&*self.0.audit, server, AUDIT_REPLAY, refusal)
                    .await);
            }
        }
        let params: AuditReplayParams = params.get()?;
        self.read(&params).await
    }

    async fn read(&self, params: &AuditReplayParams) -> Result<AuditReplayResult, RpcError> {
        let limit = params.limit.unwrap_or(USUAL);
        if limit == 0 {
            return Err(RpcError::invalid_params("limit: ask for at least one event"));
        }
        let limit = usize::try_from(limit.min(MOST)).unwrap_or_default();
        let (mut at, later_than) = match (params.since_seq, &params.since_timestamp) {
            (Some(seq), _) => (seq, None),
            (None, Some(time)) => {
                let time = time.to_system_time().ok_or_else(|| {
                    RpcError::invalid_params("since_timestamp: it is no RFC 3339 time")
                })?;
                (self.before(time).await?, Some(time))
            }
            (None, None) => (0, None),
        };
        let mut page = Page::default();
        let is_full = loop {
            let read = self.0.source.after(at, limit).await?;
            let Some(last) = read.last().and_then(number) else { break false };
            let wanted = |event: &AuditEvent| later_than.is_none_or(|time| is_later(event, time));
            let mut fits = true;
            for event in read.into_iter().filter(wanted) {
                fits = page.events.len() < limit && page.take(event)?;
                if !fits {
                    break;
                }
            }
            if !fits {
                break true;
            }
            at = last;
        };
        let mut result = AuditReplayResult::new(page.events, is_full);
        result.next_seq = result.events.last().and_then(number).or(Some(at));
        Ok(result)
    }

    /// A number before the first event after a time, found without reading what is older.
    async fn before(&self, time: SystemTime) -> Result<u64, StoreError> {
        let time = time.checked_sub(SLACK).unwrap_or(SystemTime::UNIX_EPOCH);
        // Everything up to `low` is too old; `high` is not, or there is nothing behind it.
        let (mut low, mut high) = (0, *self.0.source.newest().borrow());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.0.source.after(middle, 1).await?.first() {
                Some(event) if !is_later(event, time) => {
                    low = number(event).unwrap_or(middle + 1).max(middle + 1);
                }
                _ => high = middle,
            }
        }
        Ok(low)
    }
}

/// The events of an answer, as long as there is room.
#[derive(Default)]
struct Page {
    events: Vec<AuditEvent>,
    bytes: usize,
}

impl Page {
    fn take(&mut self, event: AuditEvent) -> Result<bool, RpcError> {
        self.bytes += Payload::of(&event)?.as_str().len();
        // One event always fits, or nobody would get past it.
        let fits = self.bytes <= BYTES || self.events.is_empty();
        if fits {
            self.events.push(event);
        }
        Ok(fits)
    }
}

fn number(event: &AuditEvent) -> Option<u64> {
    event.mgp.as_ref()?.seq
}

/// Whether an event is later; one whose time cannot be read may be.
fn is_later(event: &AuditEvent, time: SystemTime) -> bool {
    event.timestamp.to_system_time().is_none_or(|at| at > time)
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Replay")
    }
}
