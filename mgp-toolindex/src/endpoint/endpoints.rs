//! The methods of tool search, and their shared state (MGP §16.5–§16.7).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mgp_types::RpcError;
use mgp_types::method::{ToolsDiscover, ToolsRequest, ToolsSession, ToolsSessionEvict};
use mgp_types::mgp::{EvictParams, EvictResult, SearchStrategy, SessionParams, SessionResult};
use mgp_types::service::{AgentId, Context, Router, Visibility};

use super::bounds;
use super::caller::{Caller, Version};
use super::counting::TokenCounting;
use super::discover::AvailableTools;
use super::hooks::{Availability, AvailabilityCheck, ToolCreator};
use crate::catalog::IndexedTool;
use crate::error::SessionError;
use crate::index::ToolIndex;
use crate::learn::UseOutcome;
use crate::meta::name_for;
use crate::search::{Query, SearchResult};
use crate::session::{Session, Sessions};
use crate::text::fold_name;

/// The hook that is called when the tools in a caller's session have changed.
type Changed = Arc<dyn Fn(&Context) + Send + Sync>;

/// The hook that returns a note for the results of a caller's searches.
type SearchNote = Arc<dyn Fn(&Context, usize) -> Option<String> + Send + Sync>;

/// The size of the index, in tools, above which visibility decisions are cached if [`Endpoints::version`] is not set.
const MAX_UNCACHED_DECISIONS: usize = 2000;

/// The maximum number of tools that are proposed for an unknown name.
const MAX_SIMILAR: usize = 3;

/// The maximum number of found tools that are considered for an unknown name, including tools that are found only
/// because the name is the id of their server.
const MAX_CONSIDERED: usize = 16;

/// The minimum score of a tool that is proposed for an unknown name. At this score, about two thirds of the letters are
/// equal.
const MIN_SIMILAR_SCORE: f32 = 0.95;

/// The handlers of `mgp/tools/discover`, `mgp/tools/request`, `mgp/tools/session` and `mgp/tools/session/evict`.
///
/// A tool that is hidden from a caller by [`Visibility`] appears in no list, count, category or reason.
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
///     "delete_file" => Err(Hidden::new("deleting is disabled")),
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
pub struct Endpoints(Arc<EndpointsState>);

#[derive(Clone)]
pub(super) struct EndpointsState {
    pub(super) index: ToolIndex,
    pub(super) sessions: Sessions,
    visibility: Option<Arc<dyn Visibility>>,
    version: Option<Version>,
    /// The id of these endpoints, which is part of the keys of cached decisions, because several [`Endpoints`] can
    /// share one index.
    decisions_id: u64,
    standing: Option<Arc<dyn AvailabilityCheck>>,
    pub(super) create: Option<Arc<dyn ToolCreator>>,
    changed: Option<Changed>,
    note: Option<SearchNote>,
    pub(super) counting: TokenCounting,
}

impl Endpoints {
    /// Creates endpoints for an index. By default all callers see all tools, and no tools are created.
    pub fn new(index: ToolIndex, sessions: Sessions) -> Self {
        let (visibility, version, standing, create) = (None, None, None, None);
        let (changed, note) = (None, None);
        let (counting, decisions_id) = (TokenCounting::default(), next_id());
        Self(Arc::new(EndpointsState {
            index,
            sessions,
            visibility,
            version,
            decisions_id,
            standing,
            create,
            changed,
            note,
            counting,
        }))
    }

    /// Sets the rule that decides which tools a caller sees. It must decide in the same way for all calls of one
    /// principal with the same credentials.
    ///
    /// If the index has more than 2,000 tools, decisions are cached for a second, or until [`version`](Self::version)
    /// returns a different number. The tools in a result are always checked again.
    pub fn visibility(self, visibility: impl Visibility + 'static) -> Self {
        self.with(|inner| {
            inner.visibility = Some(Arc::new(visibility));
            inner.decisions_id = next_id();
        })
    }

    /// Sets a function whose result changes whenever the visibility of tools to any caller might have changed.
    ///
    /// With this function, decisions are cached for an index of any size, and dropped when the number changes.
    pub fn version(self, version: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.with(|inner| {
            inner.version = Some(Arc::new(version));
            inner.decisions_id = next_id();
        })
    }

    /// Sets a hook that decides whether a tool can be called now. Without it, all visible tools can be called.
    ///
    /// The hook is called for each found tool. If too few tools remain because it refuses many of them, it is called
    /// for all tools that the caller sees. Tools that a caller can never call should be hidden by
    /// [`visibility`](Self::visibility), which also hides them from counts and categories.
    pub fn availability(self, standing: impl AvailabilityCheck + 'static) -> Self {
        self.with(|inner| inner.standing = Some(Arc::new(standing)))
    }

    /// Sets a hook that creates missing tools; [`ToolCreator`] describes its duties.
    pub fn create(self, create: impl ToolCreator + 'static) -> Self {
        self.with(|inner| inner.create = Some(Arc::new(create)))
    }

    /// Sets a hook that is called after a request or an eviction has changed a caller's session, and so the caller's
    /// list of tools. The hook is not called after a tool call, because the result of
    /// [`record_call`](Self::record_call) already shows whether the list has changed.
    pub fn on_change(self, hook: impl Fn(&Context) + Send + Sync + 'static) -> Self {
        self.with(|inner| inner.changed = Some(Arc::new(hook)))
    }

    /// Sets a hook that returns a note for the result of a search, e.g. that the tools of some servers are not known
    /// yet. Its second argument is the number of tools that the caller sees.
    pub fn note(
        self,
        hook: impl Fn(&Context, usize) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.with(|inner| inner.note = Some(Arc::new(hook)))
    }

    fn with(mut self, change: impl FnOnce(&mut EndpointsState)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// Returns the [`Caller`] of a request. With it, a program can apply the same access decisions to other lists and
    /// calls.
    #[must_use]
    pub fn caller(&self, cx: &Context) -> Caller {
        self.0.caller(cx)
    }

    /// Records a call. The session of the call keeps the tool, and the history of the index, if any, learns which query
    /// found the tool. `handle` is the handle of that session. Returns `true` if the tool was not in the session
    /// before, so that the caller's list of tools has changed.
    ///
    /// # Errors
    /// Returns [`SessionError::UnknownHandle`] if the handle is unknown, has expired or belongs to another principal;
    /// then nothing is recorded.
    pub fn record_call(
        &self,
        cx: &Context,
        handle: Option<&str>,
        tool: &IndexedTool,
        outcome: UseOutcome,
    ) -> Result<bool, SessionError> {
        let session = self.0.sessions.find(cx, handle)?;
        let is_new =
            session.as_ref().is_some_and(|session| self.0.sessions.record_use(session, tool));
        if let Some(history) = self.0.index.history() {
            let key = search_key(cx, session.as_ref());
            history.record_call(&cx.principal, key, &tool.tool_id(), outcome);
        }
        Ok(is_new)
    }

    /// Returns the tools that a caller may mean by an unknown name, the most similar first. The caller can find these
    /// tools, and their names differ from this name by the server, the case, the separators or typing errors.
    #[must_use]
    pub fn similar_tools(&self, cx: &Context, name: &str) -> Vec<IndexedTool> {
        let caller = self.caller(cx);
        let query = Query::new(name).strategy(SearchStrategy::Keyword).limit(MAX_CONSIDERED);
        // Ignore the result for a name without letters and digits: no keyword search runs for it, and the result lists
        // the first tools only.
        let is_search = |found: &SearchResult| found.ran == SearchStrategy::Keyword;
        let found = AvailableTools::new(&self.0, &caller).search(&query).ok().filter(is_search);
        let hits = found.map(|found| found.hits).unwrap_or_default().into_iter();
        let similar = hits.filter(|hit| hit.score >= MIN_SIMILAR_SCORE).map(|hit| hit.tool);
        // The id of a server also finds tools of the server whose names do not resemble it.
        let name = fold_name(name);
        let is_similar = |tool: &IndexedTool| {
            fold_name(tool.server_id()) != name || fold_name(tool.name()).contains(&*name)
        };
        similar.filter(is_similar).take(MAX_SIMILAR).collect()
    }

    /// Returns a router with the four methods.
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

impl EndpointsState {
    pub(super) fn caller(&self, cx: &Context) -> Caller {
        let version = match &self.version {
            Some(version) => Some(version()),
            None => (self.index.len() > MAX_UNCACHED_DECISIONS).then_some(0),
        };
        Caller::new(
            cx,
            self.visibility.as_ref(),
            version.map(|version| (self.decisions_id, version)),
        )
    }

    /// Records a search in the history of the index, if the index has a history.
    pub(super) fn record_search(
        &self,
        cx: &Context,
        session: Option<&Session>,
        query: &str,
        found: &SearchResult,
    ) {
        if let Some(history) = self.index.history() {
            let tools = found.hits.iter().map(|hit| hit.tool.tool_id());
            history.record_search(&cx.principal, search_key(cx, session), query, tools);
        }
    }

    pub(super) fn has_standing(&self) -> bool {
        self.standing.is_some()
    }

    pub(super) fn standing(&self, cx: &Context, tool: &IndexedTool) -> Availability {
        self.standing
            .as_ref()
            .map_or(Availability::Callable, |standing| standing.standing(cx, tool))
    }

    /// Returns the note of the hook for a caller who sees this number of tools.
    pub(super) fn note(&self, cx: &Context, visible: usize) -> Option<String> {
        self.note.as_ref().and_then(|note| note(cx, visible))
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

/// Returns the key by which the history connects a call with an earlier search: the session and the agent, if any.
fn search_key(cx: &Context, session: Option<&Session>) -> (Option<u64>, Option<AgentId>) {
    (session.map(Session::number), cx.principal.as_agent().cloned())
}

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

mgp_types::opaque_debug!(Endpoints);
