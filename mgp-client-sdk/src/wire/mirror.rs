//! Mirrors arguments into headers where a tool's schema asks for it, and drops tools that ask wrongly (MCP 2026-07-28, `x-mcp-header`).
//!
//! Only HTTP has headers, and only modern servers read these; elsewhere the layer is no more than a look.
//!
//! Applies to: outbound.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as Task, Poll};
use std::time::Duration;

use mgp_types::mcp::{Era, ListToolsResult, Tool};
use mgp_types::method::{Request, ToolsList};
use mgp_types::service::{
    BoxFuture, Call, CallKey, Either, Extensions, HeaderParams, HeaderPlan, HttpFault, Method,
    MgpService, Outlet, Params, Reply,
};
use mgp_types::{ErrorCode, Payload, RpcError};
use serde::Deserialize;
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

/// How long nobody asks again for a list that could not be had.
const PAUSE: Duration = Duration::from_mins(1);

/// Gives tool calls their `Mcp-Param-*` headers.
#[derive(Clone)]
pub(crate) struct MirrorLayer(Option<Arc<Mirrors>>);

/// What is known of the tools of one server.
struct Mirrors {
    known: Mutex<Known>,
    /// One call fetches the list, the others wait for it.
    fetching: tokio::sync::Mutex<()>,
    max_pages: usize,
}

/// The plans of those tools that have one; no more than one list holds.
#[derive(Default)]
struct Known {
    /// Whether all tools were seen.
    whole: bool,
    /// When they were last asked for in vain.
    missed: Option<Instant>,
    plans: HashMap<String, Arc<HeaderPlan>>,
}

impl Known {
    /// Whether nobody asks for the list now: it is known, or was asked for in vain a moment ago.
    fn is_settled(&self) -> bool {
        self.whole || self.missed.is_some_and(|at| at.elapsed() < PAUSE)
    }
}

impl MirrorLayer {
    /// For a carrier without headers.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// For a carrier with headers; a list is read to this many pages.
    #[cfg(any(feature = "http", test))]
    pub(crate) fn new(max_pages: usize) -> Self {
        let fetching = tokio::sync::Mutex::new(());
        Self(Some(Arc::new(Mirrors { known: Mutex::default(), fetching, max_pages })))
    }
}

impl<S> Layer<S> for MirrorLayer {
    type Service = Mirror<S>;

    fn layer(&self, inner: S) -> Mirror<S> {
        Mirror { inner, mirrors: self.0.clone() }
    }
}

/// Service of [`MirrorLayer`].
#[derive(Clone)]
pub(crate) struct Mirror<S> {
    inner: S,
    mirrors: Option<Arc<Mirrors>>,
}

impl<S: MgpService> Service<Call> for Mirror<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<S::Future, BoxFuture<'static, Result<Reply, RpcError>>>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        let Some(mirrors) = self.mirrors.as_ref().filter(|_| call.cx().callee.era == Era::Modern)
        else {
            return Either::Left { future: self.inner.call(call) };
        };
        let (inner, mirrors) = (self.inner.clone(), Arc::clone(mirrors));
        let future: BoxFuture<'static, _> = if call.is::<ToolsList>() {
            Box::pin(mirrors.list(inner, call))
        } else if call.tool().is_some() {
            Box::pin(mirrors.call(inner, call))
        } else {
            return Either::Left { future: self.inner.call(call) };
        };
        Either::Right { future }
    }
}

impl Mirrors {
    /// Asks for a page of the tools and takes note of them.
    async fn list<S: MgpService>(
        self: Arc<Self>,
        mut inner: S,
        call: Call,
    ) -> Result<Reply, RpcError> {
        let first = !call.params().mentions("\"cursor\"");
        let mut reply = inner.call(call).await?;
        self.note(&mut reply, first);
        Ok(reply)
    }

    /// Makes a tool call with its headers; where they are refused, once more with those of a fresh list.
    async fn call<S: MgpService>(
        self: Arc<Self>,
        mut inner: S,
        call: Call,
    ) -> Result<Reply, RpcError> {
        // Once it is known, no call waits for the list.
        if !self.known().is_settled() {
            Box::pin(self.fetch(&mut inner, &call)).await;
        }
        let first = self.mirrored(&call)?;
        let error = match inner.call(first).await {
            Err(error) if is_refused(&error) => error,
            outcome => return outcome,
        };
        // The server refused before anything ran: its schema is another than the one that was listed.
        tracing::debug!(%error, "the headers of a tool call were refused; its definition is fetched anew");
        self.known().whole = false;
        Box::pin(self.fetch(&mut inner, &call)).await;
        if !self.known().whole {
            // What is not known any better would be refused again.
            return Err(error);
        }
        let mut again = self.mirrored(&call)?;
        let cx = again.cx_mut();
        cx.logical.get_or_insert_with(|| cx.key.to_text());
        cx.key = CallKey::next();
        inner.call(again).await
    }

    /// The call with its headers, in place of any that it came with.
    fn mirrored(&self, call: &Call) -> Result<Call, RpcError> {
        let mut call = call.clone();
        let plan = call.tool().and_then(|tool| self.known().plans.get(tool.name).map(Arc::clone));
        let headers = match plan {
            Some(plan) => plan.headers(call.tool_arguments().as_str())?,
            // A call that is passed on may bring headers of another hop.
            None => match call.cx().extensions.get::<HeaderParams>() {
                Some(came) if !came.is_empty() => HeaderParams::new(),
                _ => return Ok(call),
            },
        };
        call.cx_mut().extensions.insert(headers);
        Ok(call)
    }

    /// Reads the whole list on behalf of a call, unless it is known or was asked for in vain a moment ago.
    ///
    /// Without it calls go out without headers, and the server decides.
    async fn fetch<S: MgpService>(&self, inner: &mut S, call: &Call) {
        let _one = self.fetching.lock().await;
        if self.known().is_settled() {
            return;
        }
        let mut cursor = None;
        for _ in 0..self.max_pages {
            let first = cursor.is_none();
            let page = match inner.call(ask(call, cursor.take())).await {
                Ok(mut reply) => {
                    let next = next_of(&reply);
                    self.note(&mut reply, first);
                    next
                }
                Err(error) => return self.miss(&error.to_string()),
            };
            match page {
                Some(next) => cursor = Some(next),
                None => return,
            }
        }
        self.miss("the list has more pages than `max_pages`");
    }

    /// Notes that the list cannot be had for now.
    fn miss(&self, why: &str) {
        let before = self.known().missed.replace(Instant::now());
        if before.is_none() {
            tracing::warn!(
                why,
                "the tools could not be listed: those that want arguments in headers may refuse calls"
            );
        } else {
            tracing::debug!(why, "the tools could still not be listed");
        }
    }

    /// Takes note of a page, and takes out of it what cannot be called.
    fn note(&self, reply: &mut Reply, first: bool) {
        let next = next_of(reply);
        let mut plans = HashMap::new();
        let annotated = reply.as_body().is_some_and(|body| {
            let text = body.as_raw().as_str();
            // Most lists have no annotation; the look is cheaper than the parse.
            text.contains("x-mcp-header") || text.contains(r"\u")
        });
        // A list that cannot be read is the reader's to refuse.
        if annotated && let Ok(mut list) = reply.get::<ListToolsResult>() {
            let before = list.tools.len();
            list.tools.retain(|tool| keep(tool, &mut plans));
            if list.tools.len() < before
                && let Ok(fewer) = Reply::of(&list)
            {
                *reply = fewer;
            }
        }
        let mut known = self.known();
        if first {
            known.plans.clear();
        }
        known.plans.extend(plans);
        known.whole = next.is_none();
        if known.whole {
            known.missed = None;
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a call was refused for its headers, before anything ran.
///
/// Only with the status of it: what an answer says with another one was said by whoever ran the call.
fn is_refused(error: &RpcError) -> bool {
    error.code() == ErrorCode::HEADER_MISMATCH
        && HttpFault::of(error) == Some(HttpFault::Answered(400))
}

/// Whether a tool can be called; its plan is kept where it has one.
fn keep(tool: &Tool, plans: &mut HashMap<String, Arc<HeaderPlan>>) -> bool {
    match HeaderPlan::of(&tool.input_schema) {
        Ok(plan) if plan.is_empty() => true,
        Ok(plan) => {
            plans.insert(tool.name.clone(), Arc::new(plan));
            true
        }
        Err(why) => {
            // Whoever runs the client misses a tool and should learn why (MCP says so).
            tracing::warn!(tool = %tool.name, %why, "a tool is left out");
            false
        }
    }
}

/// Where a list goes on.
fn next_of(reply: &Reply) -> Option<String> {
    #[derive(Deserialize)]
    struct Page {
        #[serde(rename = "nextCursor")]
        next: Option<String>,
    }
    reply.get::<Page>().ok()?.next
}

/// A request for a page of the tools, made on behalf of a call.
fn ask(call: &Call, cursor: Option<String>) -> Call {
    let mut cx = call.cx().clone();
    cx.key = CallKey::next();
    cx.logical = None;
    cx.outlet = Outlet::none();
    cx.extensions = Extensions::default();
    let params = match cursor.map(|cursor| Payload::of(&cursor)) {
        Some(Ok(cursor)) => {
            let text = format!(r#"{{"cursor":{}}}"#, cursor.as_str());
            Params::split(ToolsList::METHOD, text.into()).unwrap_or_default()
        }
        _ => Params::none(),
    };
    let mut list = Call::request(Method::from_static(ToolsList::METHOD), params, cx);
    *list.hop_mut() = call.hop().speaker();
    list
}

impl fmt::Debug for MirrorLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "MirrorLayer" } else { "MirrorLayer(off)" })
    }
}

#[cfg(test)]
mod tests;
