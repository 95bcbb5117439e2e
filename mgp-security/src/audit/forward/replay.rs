//! `mgp.audit.replay`, which returns recorded events to callers that are allowed to read the whole log (MGP §6).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mgp_types::mcp::CallToolResult;
use mgp_types::method::{AUDIT_REPLAY, Request, ToolsCall, find_kernel_tool};
use mgp_types::mgp::{AuditEvent, AuditReplayParams, AuditReplayResult};
use mgp_types::service::{AuditSink, Call, Context, Params, Reply, Router, Stack, Target};
use mgp_types::store::StoreError;
use mgp_types::{Payload, RpcError};

use super::super::source::EventSource;
use super::Forwarder;
use crate::access::{AdminCheck, Need};

/// The number of events in an answer if the caller sets no limit.
const DEFAULT_LIMIT: u64 = 100;

/// The maximum number of events in an answer to a replay request.
const MAX_LIMIT: u64 = 1000;

/// The size limit for an answer in bytes. An answer that reaches it has `has_more` set.
const MAX_BYTES: usize = 512 * 1024;

/// The margin by which a search begins before `since_timestamp`, because the times in a log are not strictly ascending:
/// clocks are adjusted, and a call is recorded only when it ends.
const CLOCK_SLACK: Duration = Duration::from_mins(1);

/// The handler of `mgp.audit.replay`, which answers from a log.
///
/// `since_seq` selects the events after that number, `since_timestamp` the events after that time. `since_seq` takes
/// precedence; without either, the answer begins with the oldest event. `limit` defaults to 100 and is at most 1,000.
/// An answer also ends at half a mebibyte. `has_more` reports whether there are more events, and `next_seq` is the
/// `since_seq` of the next request.
///
/// A receiver that finds a gap in the numbers of its events requests the missing events with this method.
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
pub struct Replay(Arc<ReplayLog>);

struct ReplayLog {
    source: Arc<dyn EventSource>,
    audit: Arc<dyn AuditSink>,
}

/// The callers whose requests a router answers.
#[derive(Clone, Copy, PartialEq)]
enum ReplayAccess {
    /// Operators whose credentials permit reading.
    Operators,
    /// Every caller: only a configured sink or the sender of the events uses the connection, and both have the events
    /// anyway.
    NamedSink,
}

impl Replay {
    /// Creates the handler of `mgp.audit.replay`, which returns the events of `source`. Refused requests are recorded
    /// in `audit`.
    pub fn new(source: Arc<dyn EventSource>, audit: Arc<dyn AuditSink>) -> Self {
        Self(Arc::new(ReplayLog { source, audit }))
    }

    /// Returns a router that answers operators whose credentials permit reading. The route is the name of the method.
    ///
    /// To offer the method as a tool, in all forms of its name, pass the router to
    /// [`KernelToolsLayer`](crate::KernelToolsLayer).
    #[must_use]
    pub fn router(&self) -> Router {
        self.routes(ReplayAccess::Operators)
    }

    /// Returns a router for a connection on which the sink calls the method as a tool. The router handles every
    /// `tools/call`, so other parties must not use that connection. If `sink` was not added to the forwarder, the
    /// router answers only operators, as [`router`](Self::router) does.
    #[must_use]
    pub fn router_for(&self, sink: &str, forwarder: &Forwarder) -> Router {
        let access = if forwarder.has_sink(sink) {
            ReplayAccess::NamedSink
        } else {
            ReplayAccess::Operators
        };
        let own = self.clone();
        self.routes(access).route(
            ToolsCall::METHOD,
            Stack::from_fn(move |call| {
                let own = own.clone();
                async move { own.answer_tool(access, call).await }
            }),
        )
    }

    /// Returns a router for the server of a sink. The forwarder uses it to ask which events have arrived.
    ///
    /// The router answers every caller, so only the forwarder may be able to call it.
    #[must_use]
    pub fn router_for_origin(&self) -> Router {
        self.routes(ReplayAccess::NamedSink)
    }

    fn routes(&self, access: ReplayAccess) -> Router {
        let own = self.clone();
        Router::new().route(
            AUDIT_REPLAY,
            Stack::from_fn(move |call| {
                let own = own.clone();
                async move {
                    let (_, params, cx) = call.into_parts();
                    Reply::of(&own.answer(access, &cx, &params).await?)
                }
            }),
        )
    }

    async fn answer_tool(&self, access: ReplayAccess, call: Call) -> Result<Reply, RpcError> {
        let meant = match call.params().target() {
            Some(Target::Tool(name)) => find_kernel_tool(name),
            _ => None,
        };
        if meant.is_none_or(|tool| tool.name != AUDIT_REPLAY) {
            return Err(RpcError::invalid_params("the tool does not exist"));
        }
        let params = Params::split(AUDIT_REPLAY, call.tool_arguments().as_shared().clone())?;
        let result = Payload::of(&self.answer(access, call.cx(), &params).await?)?;
        let mut answer = CallToolResult::text(result.as_str());
        answer.structured_content = Some(result);
        Reply::of(&answer)
    }

    async fn answer(
        &self,
        access: ReplayAccess,
        cx: &Context,
        params: &Params,
    ) -> Result<AuditReplayResult, RpcError> {
        if access == ReplayAccess::Operators {
            let (check, server) = (AdminCheck::of(cx), cx.server.as_ref());
            check.admit(&*self.0.audit, server, Need::Read, AUDIT_REPLAY).await?;
        }
        let params: AuditReplayParams = params.get()?;
        self.read(&params).await
    }

    async fn read(&self, params: &AuditReplayParams) -> Result<AuditReplayResult, RpcError> {
        let limit = params.limit.unwrap_or(DEFAULT_LIMIT);
        if limit == 0 {
            return Err(RpcError::invalid_params("`limit` must be at least 1"));
        }
        let limit = usize::try_from(limit.min(MAX_LIMIT)).unwrap_or_default();
        let (mut at, later_than) = match (params.since_seq, &params.since_timestamp) {
            (Some(seq), _) => (seq, None),
            (None, Some(time)) => {
                let time = time.to_system_time().ok_or_else(|| {
                    RpcError::invalid_params("since_timestamp: not a valid RFC 3339 time")
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

    /// Returns the number of an event after which a search for events later than `time` can begin. Uses a binary
    /// search.
    async fn before(&self, time: SystemTime) -> Result<u64, StoreError> {
        let time = time.checked_sub(CLOCK_SLACK).unwrap_or(SystemTime::UNIX_EPOCH);
        // Invariant: every event up to the number `low` is too old. If an event with a number above `high` exists, the
        // first such event is not too old.
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

/// The events of an answer, within the size limit.
#[derive(Default)]
struct Page {
    events: Vec<AuditEvent>,
    bytes: usize,
}

impl Page {
    fn take(&mut self, event: AuditEvent) -> Result<bool, RpcError> {
        self.bytes += Payload::of(&event)?.as_str().len();
        // Always include the first event, even if it is large: otherwise the caller could never read the events after
        // it.
        let fits = self.bytes <= MAX_BYTES || self.events.is_empty();
        if fits {
            self.events.push(event);
        }
        Ok(fits)
    }
}

fn number(event: &AuditEvent) -> Option<u64> {
    event.mgp.as_ref()?.seq
}

/// Returns whether an event is later than a time. An event with an unreadable time counts as later.
fn is_later(event: &AuditEvent, time: SystemTime) -> bool {
    event.timestamp.to_system_time().is_none_or(|at| at > time)
}

mgp_types::opaque_debug!(Replay);
