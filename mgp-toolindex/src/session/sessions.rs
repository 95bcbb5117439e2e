//! The sessions of all callers (MGP §16.7).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytestring::ByteString;
use mgp_types::mgp::{ContextBudget, EvictResult, SessionResult};
use mgp_types::service::{Context, Principal, Scope, ScopeKind, TenantId};
use mgp_types::sync::{Mutex, RwLock};

use super::budget::{META_TOKENS, SessionRoom};
use super::cache::{Cache, Inserted, SessionTool};
use super::handles::{Handles, SessionLimits};
use super::pins::Pins;
use super::plan::ContextPlan;
use super::trim::fit;
use crate::catalog::{Allowed, IndexedTool};
use crate::error::SessionError;
use crate::index::{Resolved, ToolIndex};
use crate::tokens::{Exactness, TokenCounter, lean_of};

/// The maximum number of principals with a session on one connection. If another principal opens a session, the least
/// recently used session is removed.
const MAX_PRINCIPALS: usize = 16;

/// The sessions of all callers, whose tools are limited by a plan of budgets and pinned tools.
///
/// A session belongs to one principal on one connection or in one legacy session, and ends together with the connection
/// or legacy session. Stateless requests use a handle instead, which only its principal can use.
///
/// ```
/// use mgp_toolindex::{AllTools, ServerEntry, Sessions, ToolIndex};
/// use mgp_types::RawObject;
/// use mgp_types::mcp::Tool;
/// use mgp_types::service::{Router, Stack, mock};
///
/// let index = ToolIndex::new();
/// let tool = Tool::new("read_file".to_owned(), RawObject::empty());
/// index.put(ServerEntry::new("files").tool(tool)).unwrap();
///
/// let sessions = Sessions::new();
/// let cx = mock::client(Stack::new(Router::new())).cx;
/// let session = sessions.open(&cx, None).unwrap();
/// sessions.record_use(&session, &index.get("files", "read_file").unwrap());
/// let view = sessions.view(&cx.principal, Some(&session), &index, &AllTools);
/// assert_eq!(view.cached[0].tool.name(), "read_file");
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Sessions(Arc<SessionsState>);

#[derive(Debug)]
struct SessionsState {
    /// The number of this instance. It distinguishes the sessions of several instances that serve the same connection.
    number: u64,
    plan: RwLock<Arc<ContextPlan>>,
    limits: SessionLimits,
    handles: Handles,
}

/// The session of a call.
#[derive(Clone, Debug)]
pub struct Session {
    cache: Arc<Cache>,
    handle: Option<String>,
    room: SessionRoom,
}

/// The contents of a session for one caller at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionView {
    /// The pinned tools that fit into the budget.
    pub pinned: Vec<SessionTool>,
    /// The used and requested tools, most recently used first.
    pub cached: Vec<SessionTool>,
    /// The number of tokens of the pinned tools, the cached tools and the meta tools together.
    pub total_tokens: u64,
    /// The maximum number of tokens, including the tokens of search results.
    pub max_tokens: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    /// The number of tokens by which the session has grown: the tokens of added tools, and of definitions that became
    /// longer.
    pub(crate) tokens: u64,
    /// For each requested tool, `true` if it is in the session after the request.
    pub(crate) is_in: Vec<bool>,
}

#[derive(Debug, Default)]
struct ScopeSessions(Mutex<Vec<(u64, Principal, Arc<Cache>)>>);

impl Sessions {
    /// Creates sessions with the default budget and no pinned tools.
    pub fn new() -> Self {
        Self::with_plan(ContextPlan::default(), SessionLimits::default())
    }

    /// Creates sessions with a budget, pinned tools and limits; [`check_budget`](crate::check_budget) validates the
    /// budget and the pins.
    pub fn with_budget(budget: ContextBudget, pins: Pins, limits: SessionLimits) -> Self {
        Self::with_plan(ContextPlan::new(budget, pins), limits)
    }

    /// Creates sessions with a plan, which can contain budgets of individual agents.
    pub fn with_plan(plan: ContextPlan, limits: SessionLimits) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let (plan, handles) = (RwLock::new(Arc::new(plan)), Handles::default());
        Self(Arc::new(SessionsState { number, plan, limits, handles }))
    }

    /// Sets another plan for later calls; tools in a session stay as long as they fit the new budget.
    pub fn set_plan(&self, plan: ContextPlan) {
        *self.0.plan.write() = Arc::new(plan);
    }

    /// Returns the current plan of budgets and pinned tools.
    #[must_use]
    pub fn plan(&self) -> Arc<ContextPlan> {
        Arc::clone(&self.0.plan.read())
    }

    /// Returns the number of sessions that have a handle.
    #[must_use]
    pub fn handles(&self) -> usize {
        self.0.handles.len()
    }

    /// Ends the sessions with a handle of a removed tenant, so that a later tenant with this name cannot use them.
    pub fn forget_tenant(&self, tenant: &TenantId) {
        self.0.handles.remove_tenant(tenant);
    }

    /// Returns the session of a call, if the call has a session; `handle` is the handle that the caller sent.
    ///
    /// # Errors
    /// Returns [`SessionError::UnknownHandle`] if the handle is unknown, has expired or belongs to another principal.
    pub fn find(
        &self,
        cx: &Context,
        handle: Option<&str>,
    ) -> Result<Option<Session>, SessionError> {
        if let Some(name) = handle {
            let cache = self.0.handles.find(name, &cx.principal, &self.0.limits)?;
            let room = self.plan().room_of(&cx.principal);
            return Ok(Some(Session { cache, handle: Some(name.to_owned()), room }));
        }
        if outlives_requests(&cx.scope) { Ok(Some(self.of_scope(cx))) } else { Ok(None) }
    }

    /// Returns the session of a call; opens one if necessary, with a handle for stateless requests.
    ///
    /// # Errors
    /// Returns [`SessionError`] if the handle is unknown, has expired or belongs to another principal, or if no new
    /// handle can be created.
    pub fn open(&self, cx: &Context, handle: Option<&str>) -> Result<Session, SessionError> {
        if let Some(session) = self.find(cx, handle)? {
            return Ok(session);
        }
        let (name, cache) = self.0.handles.open(&cx.principal, &self.0.limits)?;
        Ok(Session { cache, handle: Some(name), room: self.plan().room_of(&cx.principal) })
    }

    fn of_scope(&self, cx: &Context) -> Session {
        let held = cx.scope.state::<ScopeSessions>();
        let mut all = held.0.lock();
        let is_own = |(number, principal, _): &(u64, Principal, _)| {
            *number == self.0.number && *principal == cx.principal
        };
        let own = match all.iter().position(is_own) {
            Some(at) => all.remove(at),
            None => (self.0.number, cx.principal.clone(), Arc::default()),
        };
        let cache = Arc::clone(&own.2);
        if all.len() == MAX_PRINCIPALS {
            all.remove(0);
        }
        all.push(own);
        Session { cache, handle: None, room: self.plan().room_of(&cx.principal) }
    }

    /// Marks a tool as used, and adds it to the session. The tool stays there as long as it fits the budget.
    ///
    /// Does not add a pinned tool, because it is already present. Returns `true` if the tool was added to the session.
    #[expect(clippy::must_use_candidate, reason = "it is used either way")]
    pub fn record_use(&self, session: &Session, tool: &IndexedTool) -> bool {
        if session.cache.mark_used(tool) {
            return false;
        }
        // Shorten the tool if it needs more room than the pinned tools leave, so that it does not evict all other
        // tools.
        let room = session.cache.room().unwrap_or(u64::MAX).min(session.room.cached);
        let insert = |held| session.cache.insert(held, session.room.cached) == Inserted::Added;
        hold(tool, room).is_some_and(insert)
    }

    /// Inserts requested tools into a session. Omits each tool that would evict another tool of the same request.
    fn put(session: &Session, held: &[Option<SessionTool>], room: u64) -> Loaded {
        let (mut tokens, mut all) = (0_u64, 0_u64);
        let mut insert = |held: &SessionTool| {
            let with = all.saturating_add(held.tokens.into());
            if with > room {
                return false;
            }
            let before = match session.cache.insert(held.clone(), room) {
                Inserted::Added => 0,
                // The session already has the tool, possibly with a shorter definition. Count only the additional
                // tokens.
                Inserted::Known(before) => before,
                Inserted::TooLarge => return false,
            };
            tokens = tokens.saturating_add(held.tokens.saturating_sub(before).into());
            all = with;
            true
        };
        let is_in = held.iter().map(|held| held.as_ref().is_some_and(&mut insert)).collect();
        Loaded { tokens, is_in }
    }

    /// Loads requested tools into a session, and counts exactly how many tokens they add.
    ///
    /// Omits pinned tools, because they are already present. The method blocks while tokens are counted. If too many
    /// callers already wait for a count, it uses upper bounds instead.
    pub(crate) fn request(
        &self,
        principal: &Principal,
        session: &Session,
        tools: &[IndexedTool],
        index: &ToolIndex,
        allowed: &dyn Allowed,
    ) -> Loaded {
        let view = self.view(principal, Some(session), index, allowed);
        let pinned: u64 = view.pinned.iter().map(|held| u64::from(held.tokens)).sum();
        let room = session.room.cached_beside(pinned);
        let is_pinned = |tool: &IndexedTool| view.pinned.iter().any(|held| held.is(tool));
        let mut held = hold_all(tools, room, is_pinned);
        let mut unsure: Vec<&mut SessionTool> = held
            .iter_mut()
            .flatten()
            .filter(|held| held.is_trimmed() || !held.tool.0.is_counted())
            .collect();
        let texts: Vec<String> = unsure.iter().map(|held| held.text().into()).collect();
        let (counts, exactness) = TokenCounter::count_all(&texts);
        if exactness == Exactness::Exact {
            let mut whole = Vec::new();
            for (held, tokens) in unsure.iter_mut().zip(counts) {
                held.tokens = tokens;
                if !held.is_trimmed() {
                    held.tool.0.count(tokens);
                    whole.push(held.tool.clone());
                }
            }
            index.store_counts(whole);
        }
        let mut loaded = Self::put(session, &held, room);
        for (is_in, tool) in loaded.is_in.iter_mut().zip(tools) {
            *is_in |= is_pinned(tool);
        }
        loaded
    }

    /// Returns the current contents of a session, restricted to the tools that the caller is allowed to call.
    pub fn view(
        &self,
        principal: &Principal,
        session: Option<&Session>,
        index: &ToolIndex,
        allowed: &dyn Allowed,
    ) -> SessionView {
        let (plan, mut pinned) = (self.plan(), Vec::<SessionTool>::new());
        let (all, mut tokens) = (plan.room_of(principal), 0_u64);
        for tool in plan.pins().of(principal).filter_map(|name| one(index, allowed, name)) {
            if pinned.iter().any(|held| held.is(&tool)) {
                continue;
            }
            match hold(&tool, all.pinned.saturating_sub(tokens)) {
                Some(held) => {
                    tokens = tokens.saturating_add(held.tokens.into());
                    pinned.push(held);
                }
                None => {
                    tracing::warn!(tool = %tool.tool_id(), "pinned tool left out: it exceeds the budget");
                }
            }
        }
        let room = all.cached_beside(tokens);
        let cached = session.map_or_else(Vec::new, |session| {
            session.cache.refresh(room, &pinned, |held| {
                let (server, name) = (held.tool.server_id(), held.tool.name());
                let now = index.get(server, name).filter(|_| allowed.allows(server, name))?;
                let is_same = now.hash() == held.tool.hash() && held.tokens <= now.tokens();
                let fits = is_same && u64::from(held.tokens) <= room;
                if fits { Some(held.clone()) } else { hold(&now, room) }
            })
        });
        let total_tokens = cached
            .iter()
            .map(|held| u64::from(held.tokens))
            .fold(tokens.saturating_add(META_TOKENS), u64::saturating_add);
        SessionView {
            pinned,
            cached,
            total_tokens,
            max_tokens: plan.budget_of(principal).max_tokens,
        }
    }

    /// Removes tools from a session by their names. Pinned tools are not removed, and the result reports them.
    ///
    /// The name `read` matches the tools `read` of all servers; `files.read` matches only the tool of the server
    /// `files`.
    pub fn evict(
        &self,
        principal: &Principal,
        session: Option<&Session>,
        names: &[String],
        index: &ToolIndex,
        allowed: &dyn Allowed,
    ) -> EvictResult {
        let view = self.view(principal, session, index, allowed);
        let is_named = |tool: &IndexedTool, name: &str| {
            let qualified =
                name.strip_prefix(tool.server_id()).and_then(|rest| rest.strip_prefix('.'));
            tool.name() == name || qualified == Some(tool.name())
        };
        let stays = |name: &&String| view.pinned.iter().any(|held| is_named(&held.tool, name));
        let gone = session.map_or_else(Vec::new, |session| {
            session.cache.evict(|held| names.iter().any(|name| is_named(&held.tool, name)))
        });
        let freed = gone.iter().map(|held| u64::from(held.tokens)).fold(0, u64::saturating_add);
        let left = view.cached.len().saturating_sub(gone.len());
        let mut result = EvictResult::new(gone.len() as u64, left as u64, freed);
        result.not_evicted = names.iter().filter(stays).cloned().collect::<Vec<_>>().into();
        result
    }
}

impl Default for Sessions {
    fn default() -> Self {
        Self::new()
    }
}

impl Session {
    /// Returns the most recently used of the given tools; `None` if none of them is in the session.
    #[must_use]
    pub fn last_used<'a>(&self, tools: &'a [IndexedTool]) -> Option<&'a IndexedTool> {
        self.cache.last_used(tools)
    }

    /// Returns the number that identifies the session within the process.
    pub(crate) fn number(&self) -> u64 {
        self.cache.number()
    }

    /// Returns the handle of a stateless session; callers send it with each request.
    #[must_use]
    pub fn handle(&self) -> Option<&str> {
        self.handle.as_deref()
    }
}

impl SessionView {
    /// Returns all tools of the session, beginning with the pinned tools.
    pub fn tools(&self) -> impl Iterator<Item = &SessionTool> {
        self.pinned.iter().chain(&self.cached)
    }

    /// Returns the result of `mgp/tools/session`; the function `name` returns a tool's callable name for the caller.
    #[must_use]
    pub fn result(&self, name: impl Fn(&IndexedTool) -> String) -> SessionResult {
        let names =
            |held: &[SessionTool]| held.iter().map(|held| name(&held.tool)).collect::<Vec<_>>();
        let mut result = SessionResult::new(names(&self.pinned), names(&self.cached));
        result.total_tokens = Some(self.total_tokens);
        result.max_tokens = Some(self.max_tokens);
        result
    }
}

impl SessionTool {
    /// Returns the definition of the tool as the model reads it: the reduced definition, or else the full definition.
    pub(crate) fn text(&self) -> ByteString {
        self.trimmed
            .clone()
            .unwrap_or_else(|| crate::tokens::lean::lean(self.tool.definition()).into())
    }
}

/// Returns whether a scope lasts longer than one request.
fn outlives_requests(scope: &Scope) -> bool {
    matches!(scope.kind(), ScopeKind::Connection | ScopeKind::Session)
}

/// Fits a tool into `room` tokens, with a reduced definition if necessary; `None` if it does not fit.
fn hold(tool: &IndexedTool, room: u64) -> Option<SessionTool> {
    let room = u32::try_from(room).unwrap_or(u32::MAX);
    if tool.tokens() <= room {
        return Some(SessionTool { tool: tool.clone(), tokens: tool.tokens(), trimmed: None });
    }
    let fitted = fit(tool, room)?;
    let name = serde_json::to_string(tool.name()).unwrap_or_default();
    let text = lean_of(&name, fitted.description.as_deref(), fitted.schema.as_payload().as_str());
    Some(SessionTool { tool: tool.clone(), tokens: fitted.tokens, trimmed: Some(text.into()) })
}

/// Fits several tools into `room` tokens together. If they do not all fit, each tool gets an equal share of the room.
/// Room that a tool does not need is left to the following tools.
fn hold_all(
    tools: &[IndexedTool],
    room: u64,
    is_pinned: impl Fn(&IndexedTool) -> bool,
) -> Vec<Option<SessionTool>> {
    let wanted = || tools.iter().filter(|tool| !is_pinned(tool));
    let all = wanted().map(|tool| u64::from(tool.tokens())).fold(0, u64::saturating_add);
    let (mut left, mut count) = (room, wanted().count() as u64);
    let hold = |tool: &IndexedTool| {
        if is_pinned(tool) {
            return None;
        }
        let share = if all <= room { left } else { left / count.max(1) };
        count = count.saturating_sub(1);
        let held = hold(tool, share);
        left = left.saturating_sub(held.as_ref().map_or(0, |held| held.tokens.into()));
        held
    };
    tools.iter().map(hold).collect()
}

/// Returns the tool that a name identifies; `None` if no tool or several tools have the name.
pub(crate) fn one(index: &ToolIndex, allowed: &dyn Allowed, name: &str) -> Option<IndexedTool> {
    match index.resolve(name, allowed) {
        Resolved::One(tool) => Some(tool),
        _ => None,
    }
}
