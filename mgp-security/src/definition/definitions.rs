//! The known tools of all servers.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use mgp_types::mgp::RiskLevel;
use mgp_types::service::{AuditSink, MemoryAudit, ServerId};
use mgp_types::store::{MemoryStore, Store, StoreError};
use mgp_types::sync::{Mutex, MutexGuard, RwLock};
use mgp_types::{Payload, Sha256Hash, canonical_hash, mcp};

use super::DefinitionState;
use super::listing::admitted;
use super::pin::{Pin, PinTable};
use super::refused::is_only_locked;
use super::review::Finding;
use super::server_listing::ServerListing;
use super::table::{KnownTool, Table, Tools};
use crate::hooks::{HookState, Hooks};
use crate::policy::Policies;
use crate::state::State;
use crate::tool::{Assess, Assessment};

/// The known tools of all servers and their definitions; a handle that is cheap to clone.
///
/// The first definition of a tool that is seen is pinned, i.e. stored as the accepted definition. From then on the tool
/// can be called as long as its server lists it with that definition; a different definition waits until an operator
/// approves it.
///
/// ```
/// use mgp_security::{Definitions, Policies, DefinitionState};
/// use mgp_types::Payload;
/// use mgp_types::service::{Principal, ServerId};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let (definitions, files) = (Definitions::in_memory(Policies::default()), ServerId::from("files"));
/// let tool = |text: &str| Payload::parse(format!(r#"{{"name":"read","description":"{text}","inputSchema":{{}}}}"#)).unwrap();
///
/// definitions.observe(&files, &[tool("Reads a file.")]).await.unwrap();
/// assert_eq!(definitions.state(Some(&files), "read"), DefinitionState::Pinned);
///
/// definitions.observe(&files, &[tool("Reads any file.")]).await.unwrap();
/// let DefinitionState::Changed(held) = definitions.state(Some(&files), "read") else { panic!("it changed") };
/// let ada = Principal::new("local", "ada").operator();
/// definitions.approve(&ada, &files, "read", &held.fingerprint, Some("we asked for it")).await.unwrap();
/// assert_eq!(definitions.state(Some(&files), "read"), DefinitionState::Pinned);
/// # });
/// ```
#[derive(Clone)]
pub struct Definitions(pub(super) Arc<DefinitionCore>);

pub(super) struct DefinitionCore {
    pub(super) pins: State<PinTable>,
    pub(super) policies: Policies,
    /// The table that lookups read; replaced as a whole by each change.
    now: RwLock<Arc<Table>>,
    /// The handles for single servers, each with that server's part of the table.
    parts: Mutex<HashMap<ServerId, Arc<ServerTools>>>,
    /// The last list of tools of each server; the key `None` is this process. Locked while the table is built, so that
    /// an older table never replaces a newer one.
    seen: Mutex<HashMap<Option<ServerId>, ServerListing>>,
    /// A lock for each server. The call that lists the server's tools holds it, and other calls wait for its result.
    turns: Mutex<HashMap<ServerId, Arc<tokio::sync::Mutex<()>>>>,
    hooks: Hooks,
    /// The operator's function that can refuse definitions for other reasons than their content.
    restriction: OnceLock<Restriction>,
    /// `true` if a change could not be applied because the pins were unreadable. The table is rebuilt as soon as they
    /// can be read.
    behind: AtomicBool,
}

/// The operator's function that checks each listed definition. It returns the reason for a refusal, or `None` if the
/// definition is allowed.
struct Restriction(Box<RestrictFn>);

type RestrictFn = dyn Fn(&ServerId, &Payload) -> Option<String> + Send + Sync;

/// The known tools of one server; kept up to date by [`Definitions`].
pub(crate) struct ServerTools(RwLock<Option<Arc<Tools>>>);

impl Definitions {
    /// Creates definitions whose pins are kept in a store; no pin is known before [`open`](Self::open).
    #[must_use]
    pub fn new(store: Arc<dyn Store>, audit: Arc<dyn AuditSink>, policies: Policies) -> Self {
        let inner = Arc::new(DefinitionCore {
            pins: State::new(store, audit),
            policies,
            now: RwLock::default(),
            parts: Mutex::default(),
            seen: Mutex::default(),
            turns: Mutex::default(),
            hooks: Hooks::default(),
            restriction: OnceLock::new(),
            behind: AtomicBool::new(false),
        });
        let weak = Arc::downgrade(&inner);
        let refresh = move || weak.upgrade().map(|inner| inner.publish());
        inner.pins.on_change(refresh.clone());
        inner.policies.on_change(refresh);
        Self(inner)
    }

    /// Creates definitions whose pins are kept in memory and lost when the process ends.
    #[must_use]
    pub fn in_memory(policies: Policies) -> Self {
        Self::new(Arc::new(MemoryStore::new()), Arc::new(MemoryAudit::new()), policies)
    }

    /// Reads the pins from the store, and follows their changes from then on.
    ///
    /// # Errors
    /// [`StoreError`] if the pins cannot be read.
    ///
    /// # Cancel safety
    /// If the future is dropped, the previously read pins remain in use.
    pub async fn open(&self) -> Result<(), StoreError> {
        self.0.pins.open().await?;
        self.0.publish();
        Ok(())
    }

    /// Returns the assessment of a tool: its risk, and what calls of it need.
    ///
    /// A tool that its server does not list is assessed by its pinned definition, or by [`Assessment::unlisted`] if it
    /// has none.
    #[must_use]
    pub fn assessment(&self, server: Option<&ServerId>, tool: &str) -> Arc<Assessment> {
        let tools = self.tools(server);
        let known = tools.as_ref().and_then(|tools| tools.get(tool));
        known.map_or_else(|| self.unlisted(server, tool), |known| Arc::clone(known.assessment()))
    }

    /// Returns the reason for the risk of a tool, in words.
    pub(crate) fn risk_reason(&self, server: &ServerId, tool: &str) -> String {
        let assessment = self.assessment(Some(server), tool);
        let tools = self.tools(Some(server));
        let listed = tools.as_ref().and_then(|tools| tools.get(tool)?.definition_or_pinned());
        // A server that has not listed its tools since the kernel started is known only from its pins, so use the
        // pinned definition.
        let known = listed.or_else(|| self.pinned(server, tool)?.shown.get().ok().map(Arc::new));
        let policy = self.0.policies.get(Some(server));
        assessment.risk_reason(tool, known.as_deref(), &policy)
    }

    /// Returns the risk of a tool, for the audit record of a call.
    pub(crate) fn risk(&self, part: &ServerTools, server: &ServerId, tool: &str) -> RiskLevel {
        self.0.catch_up();
        let risk = |tools: &Tools| Some(tools.get(tool)?.assessment().effective_risk.clone());
        let known = part.0.read().as_deref().and_then(risk);
        known.unwrap_or_else(|| self.unlisted(Some(server), tool).effective_risk.clone())
    }

    /// Returns the assessment of a tool that its server does not list, based on its pinned definition if it has one.
    pub(crate) fn unlisted(&self, server: Option<&ServerId>, tool: &str) -> Arc<Assessment> {
        let policy = self.0.policies.get(server);
        let pin = server.and_then(|server| self.pinned(server, tool));
        pin.map_or_else(|| Assessment::unlisted(tool, &policy), |pin| pin.assess(&policy)).into()
    }

    fn pinned(&self, server: &ServerId, tool: &str) -> Option<Arc<Pin>> {
        self.0.pins.now().ok()?.get(server, tool)?.pinned.clone()
    }

    /// Returns a handle to the known tools of one server, for layers that read them at every call.
    pub(crate) fn server(&self, server: &ServerId) -> Arc<ServerTools> {
        // Keeps the lists locked, so that no new table is published between reading the table and registering the
        // handle.
        let _seen = self.0.seen();
        let tools = self.0.now.read().of(Some(server.as_str())).cloned();
        let mut parts = self.0.parts.lock();
        let part = parts.entry(server.clone());
        Arc::clone(part.or_insert_with(|| Arc::new(ServerTools(RwLock::new(tools)))))
    }

    /// Returns the current tools of the server that a handle belongs to, or `None` if none are known.
    #[inline]
    pub(crate) fn tools_in(&self, part: &ServerTools) -> Option<Arc<Tools>> {
        self.0.catch_up();
        part.0.read().clone()
    }

    /// Returns the current tools of a server, or `None` if none are known.
    pub(crate) fn tools(&self, server: Option<&ServerId>) -> Option<Arc<Tools>> {
        self.tools_of(server.map(ServerId::as_str))
    }

    /// Returns the same as [`tools`](Self::tools), for a server id that is given as a string.
    pub(crate) fn tools_of(&self, server: Option<&str>) -> Option<Arc<Tools>> {
        self.0.catch_up();
        self.0.now.read().of(server).cloned()
    }

    pub(crate) fn policies(&self) -> &Policies {
        &self.0.policies
    }

    /// Checks that the pins can be read, which every decision requires.
    ///
    /// # Errors
    /// [`StoreError`] while the pins cannot be read.
    pub(crate) fn readable(&self) -> Result<(), StoreError> {
        self.0.pins.readable()
    }

    /// Returns the state of the definition of a tool.
    #[must_use]
    pub fn state(&self, server: Option<&ServerId>, tool: &str) -> DefinitionState {
        self.tools(server).map_or(DefinitionState::Unseen, |tools| tools.state(tool).clone())
    }

    /// Returns whether a definition of a tool is pinned, even if its server has not listed its tools since this process
    /// started.
    #[must_use]
    pub fn is_pinned(&self, server: &ServerId, tool: &str) -> bool {
        let pins = self.0.pins.now();
        pins.is_ok_and(|pins| pins.get(server, tool).is_some_and(|pair| pair.pinned.is_some()))
    }

    /// Returns the definition of a tool as its server last listed it, or `None` if the server does not list it.
    #[must_use]
    pub fn definition(&self, server: Option<&ServerId>, tool: &str) -> Option<Arc<mcp::Tool>> {
        self.tools(server)?.get(tool)?.tool.clone()
    }

    /// Returns the definition of a tool as its server last listed it, or else as it was pinned when the tool was first
    /// listed, and the findings about it.
    #[cfg(feature = "validators")]
    pub(crate) fn reviewed(
        &self,
        server: &ServerId,
        tool: &str,
    ) -> Option<(Arc<mcp::Tool>, Arc<[Finding]>)> {
        if let Some(listed) = self.definition(Some(server), tool) {
            return Some((listed, self.findings(Some(server), tool)));
        }
        // Ignore a pin that an operator approved, because it does not contain the findings.
        let pin = self.pinned(server, tool).filter(|pin| pin.by.is_none())?;
        Some((Arc::new(pin.shown.get().ok()?), pin.findings.as_slice().into()))
    }

    /// Returns the findings about a definition as it was last listed, including findings that do not prevent its use.
    #[must_use]
    pub fn findings(&self, server: Option<&ServerId>, tool: &str) -> Arc<[Finding]> {
        let tools = self.tools(server);
        let known = tools.as_ref().and_then(|tools| tools.get(tool));
        known.map_or_else(|| [].into(), |known| Arc::clone(&known.findings))
    }

    /// Checks the structured content of a result against the schema of its tool, if the server's policy requires it.
    ///
    /// # Errors
    /// [`ResultRefused`](crate::ResultRefused) if the content does not fit the schema.
    #[cfg(feature = "schemas")]
    pub fn check_result(
        &self,
        server: &ServerId,
        tool: &str,
        content: &str,
    ) -> Result<(), crate::ResultRefused> {
        let tools = self.tools(Some(server));
        let Some(known) = tools.as_ref().and_then(|tools| tools.get(tool)) else { return Ok(()) };
        let (Some(tool), Some(schemas)) = (&known.tool, &known.schemas) else { return Ok(()) };
        schemas.check_result(tool, content)
    }

    /// Returns whether [`check_result`](Self::check_result) compares the structured content of a tool with a schema:
    /// the server's policy requires it, and the tool has an output schema that can be used.
    #[cfg(feature = "schemas")]
    #[must_use]
    pub fn checks_results(&self, server: &ServerId, tool: &str) -> bool {
        // An empty text is not JSON, so it is refused wherever there is a check.
        self.check_result(server, tool, "").is_err()
    }

    /// Sets a function that can refuse definitions, e.g. definitions that differ from a lock file. The function returns
    /// the reason for a refusal, or `None` to allow the definition. It is called for each definition of each list, so
    /// its answers can change; a changed answer applies from the server's next list on.
    ///
    /// Only the first call of this method has an effect.
    pub fn restrict(
        &self,
        refuse: impl Fn(&ServerId, &Payload) -> Option<String> + Send + Sync + 'static,
    ) {
        let _ = self.0.restriction.set(Restriction(Box::new(refuse)));
    }

    /// Returns the reason why the operator's function refuses a definition, or `None` if it allows the definition.
    pub(super) fn restriction(&self, server: &ServerId, raw: &Payload) -> Option<String> {
        let Restriction(refuse) = self.0.restriction.get()?;
        refuse(server, raw)
    }

    /// Returns the number of tools in a server's last list whose definitions cannot be approved.
    #[must_use]
    pub fn refused(&self, server: &ServerId) -> usize {
        let Some(tools) = self.tools(Some(server)) else { return 0 };
        let refused = |known: &KnownTool| {
            known.is_in_last_list && matches!(known.standing, DefinitionState::Refused(_))
        };
        tools.named.iter().filter(|(_, known)| refused(known)).count()
    }

    /// Returns whether tools of a server were left out because it has listed too many different tools, or definitions
    /// with too many bytes in one list. All tools with new names are refused then.
    #[must_use]
    pub fn is_full(&self, server: &ServerId) -> bool {
        self.tools(Some(server)).is_some_and(|tools| tools.is_full)
    }

    /// Returns the names of the tools in a server's last list that are refused only by the operator's
    /// [restriction](Self::restrict), e.g. because they differ from a lock file.
    #[must_use]
    pub fn unlocked_tools(&self, server: &ServerId) -> Vec<String> {
        let Some(tools) = self.tools(Some(server)) else { return Vec::new() };
        let is_unlocked = |known: &KnownTool| {
            let DefinitionState::Refused(found) = &known.standing else { return false };
            known.is_in_last_list && is_only_locked(found)
        };
        let unlocked = tools.named.iter().filter(|(_, known)| is_unlocked(known));
        unlocked.map(|(name, _)| String::from(&**name)).collect()
    }

    /// Returns the hash of the JSON text of a definition as the server last listed it.
    pub(super) fn listed(&self, server: &ServerId, tool: &str) -> Option<Sha256Hash> {
        self.tools(Some(server))?.get(tool)?.raw
    }

    /// Registers tools of this process. They are trusted, so their definitions are not pinned.
    pub fn learn(&self, server: Option<&ServerId>, tools: &[mcp::Tool]) {
        let tools: Vec<_> = tools.iter().cloned().map(Arc::new).collect();
        self.learn_shared(server, &tools);
    }

    /// Registers tools of this process as [`learn`](Self::learn) does, without copying their definitions. A tool whose
    /// `Arc` was registered before is not assessed again.
    pub fn learn_shared(&self, server: Option<&ServerId>, tools: &[Arc<mcp::Tool>]) {
        self.0.seen().insert(server.cloned(), ServerListing::own(tools));
        self.0.publish();
    }

    /// Marks a server's list as outdated, because the server reported a change: before the next call of one of its
    /// tools, the tools are listed again. If the server's last three announcements were false, i.e. its list had stayed
    /// the same, this has an effect only once the list is 30 s old.
    pub fn mark_stale(&self, server: &ServerId) {
        if let Some(seen) = self.0.seen().get_mut(&Some(server.clone())) {
            seen.stale();
        }
        // A server may announce any number of changes. Only the first change since its last list changes the table, so
        // publish a new table only then.
        if !self.is_stale(server) {
            self.0.publish();
        }
    }

    /// Marks a server's list as outdated, because another version of the server may run now: before the next call of
    /// one of its tools, the tools are listed again, even if the server's last announcements were false.
    pub fn mark_restarted(&self, server: &ServerId) {
        if let Some(seen) = self.0.seen().get_mut(&Some(server.clone())) {
            seen.restarted();
        }
        self.0.publish();
    }

    /// Returns the number of changes that a server has announced so far. Call this before the server is asked for a
    /// list: from then on, changes are counted even if the server has not listed anything yet.
    pub(crate) fn announced(&self, server: &ServerId) -> u64 {
        // Ignore an error: if the server cannot be admitted, the processing of the list returns the error.
        let _ = self.admit(server);
        self.announcements(server)
    }

    /// Returns the number of changes that a known server has announced so far.
    pub(crate) fn announcements(&self, server: &ServerId) -> u64 {
        self.0.seen().get(&Some(server.clone())).map_or(0, ServerListing::announced)
    }

    /// Returns whether a server has announced a change since it was asked for its last complete list.
    pub(super) fn is_stale(&self, server: &ServerId) -> bool {
        self.tools(Some(server)).is_some_and(|tools| tools.stale)
    }

    /// Registers a hook that runs after each change of the known tools; it must not block.
    pub fn on_change<L: Into<HookState>>(&self, hook: impl Fn() -> L + Send + Sync + 'static) {
        self.0.hooks.add(hook);
    }

    /// Returns a number for each server of which a known tool has changed: whether callers can use it, or its risk. The
    /// number differs after each such change.
    #[must_use]
    pub fn revisions(&self) -> BTreeMap<ServerId, u64> {
        self.0.table().revisions.clone()
    }

    /// Returns a server's lock, which ensures that only one call at a time lists the tools or records an override.
    pub(super) fn turn(&self, server: &ServerId) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.0.turns.lock();
        // Remove locks that no call holds or waits for.
        turns.retain(|known, turn| known == server || Arc::strong_count(turn) > 1);
        Arc::clone(turns.entry(server.clone()).or_default())
    }
}

impl DefinitionCore {
    pub(super) fn table(&self) -> Arc<Table> {
        Arc::clone(&self.now.read())
    }

    /// Rebuilds the table if changes were missed while the pins could not be read.
    #[inline]
    fn catch_up(&self) {
        if self.behind.load(Ordering::Acquire) && self.behind.swap(false, Ordering::AcqRel) {
            self.publish();
        }
    }

    pub(super) fn seen(&self) -> MutexGuard<'_, HashMap<Option<ServerId>, ServerListing>> {
        self.seen.lock()
    }

    /// Returns whether a server with this id is configured or registered, or has ever listed tools.
    pub(super) fn is_known(&self, id: &str, admitted: &HashSet<ServerId>, book: &PinTable) -> bool {
        self.policies.has(id) || book.has(id) || admitted.contains(id)
    }

    /// Rebuilds the table from the lists, the pins and the policies, and publishes it.
    pub(super) fn publish(&self) {
        let mut seen = self.seen();
        // While the pins are unreadable, no call is decided, so the old table can stay until they can be read.
        let Ok(book) = self.pins.now() else {
            self.behind.store(true, Ordering::Release);
            return;
        };
        let admitted = admitted(&seen);
        for (server, seen) in &mut *seen {
            if let Some(server) = server {
                seen.review_names(server, |id| self.is_known(id, &admitted, &book));
            }
        }
        let before = self.table();
        let mut own = Arc::default();
        let mut servers = BTreeMap::new();
        for (server, seen) in &*seen {
            let policy = self.policies.get(server.as_ref());
            let tools = seen.tools(
                server.as_ref(),
                &book,
                &policy,
                before.of(server.as_ref().map(ServerId::as_str)),
            );
            match server {
                Some(server) => drop(servers.insert(server.clone(), Arc::new(tools))),
                None => own = Arc::new(tools),
            }
        }
        let mut table = Table { own, servers: servers.into(), ..Table::default() };
        let changed = table.changed_servers(&before);
        let is_visible = !changed.is_empty() || !table.own.shows_same(&before.own);
        table.count_changes(&before, changed);
        let mut parts = self.parts.lock();
        parts.retain(|_, part| Arc::strong_count(part) > 1);
        for (server, part) in &*parts {
            *part.0.write() = table.servers.get(server.as_str()).cloned();
        }
        drop(parts);
        *self.now.write() = Arc::new(table);
        drop(seen);
        if is_visible {
            self.hooks.run();
        }
    }
}

impl Assess for Definitions {
    fn assessment(&self, server: Option<&ServerId>, tool: &str) -> Arc<Assessment> {
        self.assessment(server, tool)
    }

    fn definition(&self, server: Option<&ServerId>, tool: &str) -> Option<Sha256Hash> {
        let definition = Payload::of(&*self.definition(server, tool)?).ok()?;
        canonical_hash(definition.as_str()).ok()
    }
}

mgp_types::opaque_debug!(Definitions);
