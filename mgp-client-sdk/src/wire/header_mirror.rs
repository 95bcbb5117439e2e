//! Copies arguments of tool calls into `Mcp-Param-*` headers as the tool's schema requires (`x-mcp-header`),
//! and drops tools whose annotation is invalid (MCP 2026-07-28).
//!
//! Only HTTP has headers, and only modern servers read these headers. On any other connection the layer passes calls
//! through.
//!
//! Applies to: outbound.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use mgp_types::mcp::{Era, ListParams, NextCursor};
use mgp_types::method::{Request, ToolsList};
use mgp_types::service::{
    BoxFuture, Call, CallKey, Either, Extensions, HeaderParams, HeaderPlan, HttpFailure, Method,
    MgpService, Outlet, Params, Reply,
};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, Object, Payload, RawObject, RpcError, clip};
use serde::Deserialize;
use tokio::time::{Instant, timeout};
use tower_layer::Layer;
use tower_service::Service;

use super::list_size::{MAX_LIST_BYTES, page_bytes};
use super::request_timeout::TimeLimits;

/// The minimum time between a failed fetch of the tool list and the next fetch.
const REFETCH_INTERVAL: Duration = Duration::from_mins(1);

/// Layer that adds `Mcp-Param-*` headers to tool calls.
#[derive(Clone)]
pub(crate) struct HeaderMirrorLayer(Arc<HeaderPlans>);

struct HeaderPlans {
    plans: Mutex<KnownPlans>,
    /// A lock that a call holds while it fetches the list; other calls wait for it.
    fetching: tokio::sync::Mutex<()>,
    max_pages: usize,
    /// The maximum time that a call waits for the list.
    timeout: Duration,
}

#[derive(Default)]
struct KnownPlans {
    /// `true` if the complete list has been read.
    is_complete: bool,
    /// The cursor of the next page, if the first pages have been read in order.
    next: Option<String>,
    /// The time of the last failed fetch of the list, and the time limit of that fetch; the limit is `MAX` if more time
    /// would not have helped.
    failed: Option<(Instant, Duration)>,
    plans: HashMap<String, Arc<HeaderPlan>>,
}

impl KnownPlans {
    /// Returns whether a call with this time limit need not fetch the list: the list is complete, or a fetch with at
    /// least this limit failed a moment ago.
    fn is_settled(&self, limit: Duration) -> bool {
        let failed =
            |(at, had): (Instant, Duration)| at.elapsed() < REFETCH_INTERVAL && limit <= had;
        self.is_complete || self.failed.is_some_and(failed)
    }
}

impl HeaderMirrorLayer {
    /// Creates a layer for a transport with headers; at most `max_pages` pages of a list are read, within `timeout`.
    #[cfg(any(feature = "http", test))]
    pub(crate) fn new(max_pages: usize, timeout: Duration) -> Self {
        let fetching = tokio::sync::Mutex::new(());
        Self(Arc::new(HeaderPlans { plans: Mutex::default(), fetching, max_pages, timeout }))
    }
}

impl<S> Layer<S> for HeaderMirrorLayer {
    type Service = HeaderMirror<S>;

    fn layer(&self, inner: S) -> HeaderMirror<S> {
        HeaderMirror { inner, headers: Arc::clone(&self.0) }
    }
}

#[derive(Clone)]
pub(crate) struct HeaderMirror<S> {
    inner: S,
    headers: Arc<HeaderPlans>,
}

impl<S: MgpService> Service<Call> for HeaderMirror<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<S::Future, BoxFuture<'static, Result<Reply, RpcError>>>;
    mgp_types::always_ready!();

    fn call(&mut self, call: Call) -> Self::Future {
        if call.cx().callee.era != Era::Modern {
            return Either::Left { future: self.inner.call(call) };
        }
        let (inner, headers) = (self.inner.clone(), Arc::clone(&self.headers));
        let future: BoxFuture<'static, _> = if call.is::<ToolsList>() {
            Box::pin(headers.list(inner, call))
        } else if call.tool().is_some() {
            Box::pin(headers.call(inner, call))
        } else {
            return Either::Left { future: self.inner.call(call) };
        };
        Either::Right { future }
    }
}

impl HeaderPlans {
    /// Forwards a request for a page of tools and learns their header plans from the result.
    async fn list<S: MgpService>(
        self: Arc<Self>,
        mut inner: S,
        call: Call,
    ) -> Result<Reply, RpcError> {
        let cursor = if call.params().may_contain_member("\"cursor\"") {
            call.params().get::<ListParams>().ok().and_then(|params| params.cursor)
        } else {
            None
        };
        let mut reply = inner.call(call).await?;
        self.learn(&mut reply, cursor.as_deref());
        Ok(reply)
    }

    /// Sends a tool call with its headers; if they are refused, fetches the list and sends the call once more.
    async fn call<S: MgpService>(
        self: Arc<Self>,
        mut inner: S,
        call: Call,
    ) -> Result<Reply, RpcError> {
        let limit = self.limit(&call);
        // Fetch the list first if it is not known yet; otherwise the call need not wait.
        if !self.plans.lock().is_settled(limit) {
            Box::pin(self.fetch(&mut inner, &call, limit)).await;
        }
        let first = self.with_headers(&call)?;
        let error = match inner.call(first).await {
            Err(error) if is_refused(&error) => error,
            outcome => return outcome,
        };
        // The server refused the call before the tool ran, because the schema has changed since the tool was listed. So
        // fetch the list again.
        tracing::debug!(%error, "headers of a tool call refused; fetching its definition again");
        self.plans.lock().is_complete = false;
        Box::pin(self.fetch(&mut inner, &call, limit)).await;
        if !self.plans.lock().is_complete {
            // Return the error if the list could not be fetched: the headers would be the same, and the server would
            // refuse them again.
            return Err(error);
        }
        let mut again = self.with_headers(&call)?;
        let cx = again.cx_mut();
        cx.logical.get_or_insert_with(|| cx.key.to_text());
        cx.key = CallKey::next();
        inner.call(again).await
    }

    /// Returns the call with the headers that its arguments require; these replace any `Mcp-Param-*` headers that the
    /// call already has.
    fn with_headers(&self, call: &Call) -> Result<Call, RpcError> {
        let mut call = call.clone();
        let plan =
            call.tool().and_then(|tool| self.plans.lock().plans.get(tool.name).map(Arc::clone));
        let headers = match plan {
            Some(plan) => plan.headers(call.tool_arguments().as_str())?,
            // The call needs no headers; remove headers that a forwarded call still has for another server.
            None => match call.cx().extensions.get::<HeaderParams>() {
                Some(own) if !own.is_empty() => HeaderParams::new(),
                _ => return Ok(call),
            },
        };
        call.cx_mut().extensions.insert(headers);
        Ok(call)
    }

    /// Returns the maximum time that a call waits for the list of tools: the call's own time-out, at most `timeout`.
    fn limit(&self, call: &Call) -> Duration {
        let own = call.cx().extensions.get::<TimeLimits>();
        own.map_or(self.timeout, |own| own.timeout.min(self.timeout))
    }

    /// Fetches the whole list of tools on behalf of a call, unless the list is known or a fetch failed a moment ago.
    ///
    /// Calls of tools that are not on the fetched pages are sent without headers for their arguments, and the server
    /// decides whether to accept them.
    async fn fetch<S: MgpService>(&self, inner: &mut S, call: &Call, limit: Duration) {
        if timeout(limit, self.fetch_pages(inner, call, limit)).await.is_err() {
            self.record_failure("the list did not arrive within the time-out of a call", limit);
        }
    }

    async fn fetch_pages<S: MgpService>(&self, inner: &mut S, call: &Call, limit: Duration) {
        let _one = self.fetching.lock().await;
        if self.plans.lock().is_settled(limit) {
            return;
        }
        let failed = |why: &str| self.record_failure(why, Duration::MAX);
        let mut cursor: Option<String> = None;
        let (mut seen, mut bytes) = (HashSet::new(), 0);
        for _ in 0..self.max_pages {
            let page = match inner.call(page_request(call, cursor.as_deref())).await {
                Ok(mut reply) => {
                    bytes += page_bytes(&reply);
                    let next = next_cursor(&reply);
                    self.learn(&mut reply, cursor.as_deref());
                    next
                }
                Err(error) => return failed(&error.to_string()),
            };
            match page {
                Some(next) if !seen.insert(next.clone()) => {
                    return failed("a cursor of the list was repeated");
                }
                Some(_) if bytes > MAX_LIST_BYTES => return failed("the list is too long"),
                Some(next) => cursor = Some(next),
                None => return,
            }
        }
        failed("the list has more pages than `max_pages`");
    }

    fn record_failure(&self, why: &str, limit: Duration) {
        let before = self.plans.lock().failed.replace((Instant::now(), limit));
        if before.is_none() {
            tracing::warn!(
                why,
                "listing tools failed; tools that expect arguments in headers may refuse calls"
            );
        } else {
            tracing::debug!(why, "listing tools failed again");
        }
    }

    /// Stores the header plans of the page at a cursor, and removes tools with invalid annotations from it.
    fn learn(&self, reply: &mut Reply, cursor: Option<&str>) {
        let next = next_cursor(reply);
        let mut plans = HashMap::new();
        let annotated = reply.as_body().is_some_and(|body| {
            let text = body.as_raw().as_str();
            // Search the text before parsing: most lists contain no annotation, and a search is cheaper.
            text.contains("x-mcp-header") || text.contains(r"\u")
        });
        // Leave a list that cannot be parsed unchanged; the code that reads the list reports the error.
        if annotated
            && let Ok(mut list) = reply.get::<Object>()
            && let Some(Ok(mut tools)) = list.get("tools").map(Payload::get::<Vec<Payload>>)
        {
            let before = tools.len();
            tools.retain(|tool| is_callable(tool, &mut plans));
            if tools.len() < before
                && let Ok(tools) = Payload::of(&tools)
            {
                list.insert("tools", tools);
                if let Ok(fewer) = Reply::of(&list) {
                    *reply = fewer;
                }
            }
        }
        let mut known = self.plans.lock();
        if cursor.is_none() {
            known.plans.clear();
        }
        known.plans.extend(plans);
        // A page that does not continue the pages before it shows nothing about the rest of the list.
        if cursor.is_none() || cursor == known.next.as_deref() {
            known.is_complete = next.is_none();
            known.next = next;
        }
        if known.is_complete {
            known.failed = None;
        }
    }
}

/// Returns whether a server refused a call because of its headers, before the tool ran.
///
/// Only an error with status 400 shows this; an error with any other status may come from the tool itself.
fn is_refused(error: &RpcError) -> bool {
    error.code() == ErrorCode::HEADER_MISMATCH
        && HttpFailure::from_error(error) == Some(HttpFailure::StatusWithError(400))
}

/// The members of a tool that determine its headers.
#[derive(Deserialize)]
struct ListedTool {
    name: String,
    #[serde(rename = "inputSchema")]
    input_schema: RawObject,
}

/// Returns whether a tool can be called, which requires valid annotations; stores the tool's header plan, if it has
/// annotations.
fn is_callable(tool: &Payload, plans: &mut HashMap<String, Arc<HeaderPlan>>) -> bool {
    // A tool that cannot be read stays in the list; the code that reads the tool reports the error.
    let Ok(tool) = tool.get::<ListedTool>() else { return true };
    match HeaderPlan::of(&tool.input_schema) {
        Ok(plan) if plan.is_empty() => true,
        Ok(plan) => {
            plans.insert(tool.name, Arc::new(plan));
            true
        }
        Err(why) => {
            // Log a warning, as MCP requires for each tool that a client removes from the list.
            let tool = clip(&tool.name, 120);
            tracing::warn!(%tool, %why, "tool left out of the list: invalid header annotation");
            false
        }
    }
}

fn next_cursor(reply: &Reply) -> Option<String> {
    #[derive(Deserialize)]
    struct Page {
        #[serde(default, rename = "nextCursor")]
        next: NextCursor,
    }
    reply.get::<Page>().ok()?.next.0
}

fn page_request(call: &Call, cursor: Option<&str>) -> Call {
    let mut cx = call.cx().clone();
    cx.key = CallKey::next();
    cx.logical = None;
    cx.outlet = Outlet::none();
    cx.extensions = Extensions::default();
    let params = match cursor.map(Payload::of) {
        Some(Ok(cursor)) => {
            let text = format!(r#"{{"cursor":{}}}"#, cursor.as_str());
            Params::split(ToolsList::METHOD, text.into()).unwrap_or_default()
        }
        _ => Params::none(),
    };
    let mut list = Call::request(Method::from_static(ToolsList::METHOD), params, cx);
    *list.hop_mut() = call.hop().sender_members();
    list
}

mgp_types::opaque_debug!(HeaderMirrorLayer);

#[cfg(test)]
mod tests;
