//! The methods of tool search, and what they share (MGP §16.5–§16.7).
//!
//! Applies to: inbound.

use std::fmt;
use std::sync::Arc;

use mgp_types::RpcError;
use mgp_types::method::{ToolsDiscover, ToolsRequest, ToolsSession, ToolsSessionEvict};
use mgp_types::mgp::{EvictParams, EvictResult, SessionParams, SessionResult};
use mgp_types::service::{Context, Router, Visibility};

use super::bounds;
use super::caller::{Caller, Version};
use super::counting::Counting;
use super::hooks::{Create, Standing, StandingOf};
use crate::catalog::Listed;
use crate::index::ToolIndex;
use crate::meta::name_for;
use crate::session::Sessions;

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
    standing: Option<Arc<dyn StandingOf>>,
    pub(super) create: Option<Arc<dyn Create>>,
    pub(super) counting: Counting,
}

impl Endpoints {
    /// Answers about the tools of an index; everybody sees all of them, and none is made.
    pub fn new(index: ToolIndex, sessions: Sessions) -> Self {
        let (visibility, version, standing, create) = (None, None, None, None);
        let counting = Counting::default();
        Self(Arc::new(Inner { index, sessions, visibility, version, standing, create, counting }))
    }

    /// Shows a caller what it sees only.
    pub fn visibility(self, visibility: impl Visibility + 'static) -> Self {
        self.with(|inner| inner.visibility = Some(Arc::new(visibility)))
    }

    /// Tells a number that changes whenever somebody may see more or less than before.
    ///
    /// With it what a caller sees is not decided anew for every tool of every search.
    pub fn version(self, version: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.with(|inner| inner.version = Some(Arc::new(version)))
    }

    /// Knows which tools may be called right now; without it all that are seen.
    pub fn standing(self, standing: impl StandingOf + 'static) -> Self {
        self.with(|inner| inner.standing = Some(Arc::new(standing)))
    }

    /// Makes tools that nobody has; see [`Create`] for what that takes.
    pub fn create(self, create: impl Create + 'static) -> Self {
        self.with(|inner| inner.create = Some(Arc::new(create)))
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
        Caller::new(cx, self.visibility.as_ref(), self.version.as_ref())
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
        Ok(self.sessions.evict(&cx.principal, session.as_ref(), tools, &self.index, &caller))
    }
}

impl fmt::Debug for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoints")
            .field("index", &self.0.index)
            .field("sessions", &self.0.sessions)
            .finish_non_exhaustive()
    }
}
