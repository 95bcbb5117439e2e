//! The methods of tool search, and what they share (MGP §16.5–§16.7).
//!
//! Applies to: inbound.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mgp_types::RpcError;
use mgp_types::method::{ToolsDiscover, ToolsRequest, ToolsSession, ToolsSessionEvict};
use mgp_types::mgp::{EvictParams, EvictResult, SessionParams, SessionResult};
use mgp_types::service::{AgentId, Context, Router, Visibility};

use super::bounds;
use super::caller::{Caller, Version};
use super::counting::Counting;
use super::hooks::{Create, Standing, StandingOf};
use crate::catalog::Listed;
use crate::error::SessionError;
use crate::index::ToolIndex;
use crate::learn::Outcome;
use crate::meta::name_for;
use crate::search::Found;
use crate::session::{Session, Sessions};

/// Hears that the session of a caller has other tools.
type Changed = Arc<dyn Fn(&Context) + Send + Sync>;

/// So many tools are decided about anew for each search, where nobody tells when decisions change.
const DECIDED_ANEW: usize = 2000;

/// Answers `mgp/tools/discover`, `mgp/tools/request`, `mgp/tools/session` and `mgp/tools/session/evict`.
///
/// What a caller does not see ([`Visibility`]) is not found: it is in no list, no count, no category and no reason.
///
/// ```
/// use mgp_toolindex::{Endpoints, ServerEntry, Sessions, ToolIndex};
/// use mgp_types::RawObject;
/// use mgp_types::mcp::Tool;
/// use mgp_types::service::{Hidden, Stack, mock, visibility};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let index = ToolIndex::new();
/// let tool = |name: &str| Tool::new(name.to_owned(), RawObject::empty());
/// index.put(ServerEntry::new("files").tools([tool("read_file"), tool("delete_file")])).unwrap();
/// let no_delete = visibility(|_, _, tool| match tool {
///     "delete_file" => Err(Hidden::by("nobody deletes")),
///     _ => Ok(()),
/// });
/// let endpoints = Endpoints::new(index, Sessions::new()).visibility(no_delete);
/// let mut client = mock::client(Stack::new(endpoints.router()));
/// let found = client.request("mgp/tools/discover", r#"{"query":"file"}"#).await.unwrap();
/// assert!(found.as_str().contains("read_file") && !found.as_str().contains("delete_file"));
/// # });
/// ```
#[derive(Clone)]
#[must_use]
pub struct Endpoints(Arc<Inner>);

#[derive(Clone)]
pub(super) struct Inner {
    pub(super) index: ToolIndex,
    pub(super) sessions: Sessions,
    visibility: Option<Arc<dyn Visibility>>,
    version: Option<Version>,
    /// Tells decisions apart: one index may serve several sets of endpoints.
    whose: u64,
    standing: Option<Arc<dyn StandingOf>>,
    pub(super) create: Option<Arc<dyn Create>>,
    changed: Option<Changed>,
    pub(super) counting: Counting,
}

impl Endpoints {
    /// Answers about the tools of an index; everybody sees all of them, and none is made.
    pub fn new(index: ToolIndex, sessions: Sessions) -> Self {
        let (visibility, version, standing, create, changed) = (None, None, None, None, None);
        let (counting, whose) = (Counting::default(), next());
        Self(Arc::new(Inner {
            index,
            sessions,
            visibility,
            version,
            whose,
            standing,
            create,
            changed,
            counting,
        }))
    }

    /// Shows a caller what it sees only. Two calls of one principal see the same.
    ///
    /// Decisions about more than 2,000 tools are kept for a second, or until [`version`](Self::version) tells another
    /// number; every tool that is shown is decided about anew.
    pub fn visibility(self, visibility: impl Visibility + 'static) -> Self {
        self.with(|inner| {
            inner.visibility = Some(Arc::new(visibility));
            inner.whose = next();
        })
    }

    /// Tells a number that changes whenever somebody may see more or less than before.
    ///
    /// With it no decision is kept beyond such a change, and those about few tools are kept too.
    pub fn version(self, version: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.with(|inner| {
            inner.version = Some(Arc::new(version));
            inner.whose = next();
        })
    }

    /// Knows which tools may be called right now; without it all that are seen.
    ///
    /// It is asked about tools that were found. What a caller may never call belongs to [`visibility`](Self::visibility),
    /// which keeps it out of counts and categories too.
    pub fn standing(self, standing: impl StandingOf + 'static) -> Self {
        self.with(|inner| inner.standing = Some(Arc::new(standing)))
    }

    /// Makes tools that nobody has; see [`Create`] for what that takes.
    pub fn create(self, create: impl Create + 'static) -> Self {
        self.with(|inner| inner.create = Some(Arc::new(create)))
    }

    /// Hears whenever a request or an eviction has changed what is in the session of a caller, and so its list of tools.
    /// Of calls [`called`](Self::called) tells the same.
    pub fn on_change(self, hook: impl Fn(&Context) + Send + Sync + 'static) -> Self {
        self.with(|inner| inner.changed = Some(Arc::new(hook)))
    }

    fn with(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// The caller of a call, for whatever else is shown to it: lists of tools, and calls of tools that were found.
    #[must_use]
    pub fn caller(&self, cx: &Context) -> Caller {
        self.0.caller(cx)
    }

    /// Notes that a tool was called: it stays in the session, and the history of the index, if it has one, learns which
    /// query found it. `handle` is the session handle that came with the call, if one did.
    /// `true` says that the tool was not in the session before: the caller's list of tools has changed.
    ///
    /// # Errors
    /// [`SessionError::UnknownHandle`](crate::SessionError::UnknownHandle) if the handle ended or is another
    /// principal's; then nothing is noted.
    pub fn called(
        &self,
        cx: &Context,
        handle: Option<&str>,
        tool: &Listed,
        outcome: Outcome,
    ) -> Result<bool, SessionError> {
        let session = self.0.sessions.find(cx, handle)?;
        let is_new = session.as_ref().is_some_and(|session| self.0.sessions.used(session, tool));
        if let Some(history) = self.0.index.history() {
            let asking = asking(cx, session.as_ref());
            history.called(&cx.principal, asking, &tool.tool_id(), outcome);
        }
        Ok(is_new)
    }

    /// The methods.
    #[must_use]
    pub fn router(&self) -> Router {
        let inner = || Arc::clone(&self.0);
        let (discover, request, session, evict) = (inner(), inner(), inner(), inner());
        Router::new()
            .on::<ToolsDiscover, _, _>(move |cx, params| {
                super::discover::answer(Arc::clone(&discover), cx, params)
            })
            .on::<ToolsRequest, _, _>(move |cx, params| {
                super::request::answer(Arc::clone(&request), cx, params)
            })
            .on::<ToolsSession, _, _>(move |cx, params| {
                std::future::ready(session.session(&cx, &params))
            })
            .on::<ToolsSessionEvict, _, _>(move |cx, params| {
                std::future::ready(evict.evict(&cx, &params))
            })
    }
}

impl Inner {
    pub(super) fn caller(&self, cx: &Context) -> Caller {
        let version = match &self.version {
            Some(version) => Some(version()),
            None => (self.index.len() > DECIDED_ANEW).then_some(0),
        };
        Caller::new(cx, self.visibility.as_ref(), version.map(|version| (self.whose, version)))
    }

    /// Tells the history of the index, if it has one, what a query found.
    pub(super) fn asked(
        &self,
        cx: &Context,
        session: Option<&Session>,
        query: &str,
        found: &Found,
    ) {
        if let Some(history) = self.index.history() {
            let tools = found.hits.iter().map(|hit| hit.tool.tool_id());
            history.asked(&cx.principal, asking(cx, session), query, tools);
        }
    }

    pub(super) fn has_standing(&self) -> bool {
        self.standing.is_some()
    }

    pub(super) fn standing(&self, cx: &Context, tool: &Listed) -> Standing {
        self.standing.as_ref().map_or(Standing::Callable, |standing| standing.standing(cx, tool))
    }

    fn session(&self, cx: &Context, params: &SessionParams) -> Result<SessionResult, RpcError> {
        let session = self.sessions.find(cx, params.session_handle.as_deref())?;
        let caller = self.caller(cx);
        let view = self.sessions.view(&cx.principal, session.as_ref(), &self.index, &caller);
        Ok(view.result(|tool| name_for(tool, &self.index, &caller)))
    }

    fn evict(&self, cx: &Context, params: &EvictParams) -> Result<EvictResult, RpcError> {
        bounds::evict(params)?;
        let session = self.sessions.find(cx, params.session_handle.as_deref())?;
        let caller = self.caller(cx);
        let tools = &params.tools;
        let result =
            self.sessions.evict(&cx.principal, session.as_ref(), tools, &self.index, &caller);
        if result.evicted > 0 {
            self.changed(cx);
        }
        Ok(result)
    }

    pub(super) fn changed(&self, cx: &Context) {
        if let Some(changed) = &self.changed {
            changed(cx);
        }
    }
}

/// What a call belongs to, as far as it is known: its session, else whoever acts.
fn asking(cx: &Context, session: Option<&Session>) -> (Option<u64>, Option<AgentId>) {
    (session.map(Session::number), cx.principal.as_agent().cloned())
}

fn next() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl fmt::Debug for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoints")
            .field("index", &self.0.index)
            .field("sessions", &self.0.sessions)
            .finish_non_exhaustive()
    }
}
