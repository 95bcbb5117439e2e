//! The book of entries: opened, decided from, told of changes (MGP §5.2).
//!
//! Applies to: both.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use mgp_types::mgp::AccessPermission;
use mgp_types::service::{
    AuditSink, Context, Hidden, MemoryAudit, Principal, ServerId, Visibility,
};
use mgp_types::store::{MemoryStore, Store, StoreError};

use super::decided::Decided;
use super::entry::{Entry, Who, name_of};
use super::groups::Groups;
use super::pass::{Credentials, Need};
use super::refused::{AccessDenied, PassEnded};
use super::rules::{Moment, Rules, Seeker};
use crate::error::Refusal;
use crate::hooks::Listening;
use crate::policy::Policies;
use crate::state::State;

/// Who may use what; a handle.
///
/// There is one decision, for calls and for every list: an entry for the tool, else one for the server, else the
/// server's default policy.
/// On one level an entry that denies beats all that allow, whoever they are for: the agent, one of its groups, everyone.
/// An entry whose time is over counts as absent, and one of another tenant for nothing.
///
/// Operators' own calls are decided like everyone's: they may change what is allowed, and then it is in the log.
///
/// ```
/// use std::time::SystemTime;
/// use mgp_security::{Access, Policies};
/// use mgp_types::mgp::{AccessGrantParams, AccessPermission, EntryType};
/// use mgp_types::service::Principal;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let access = Access::in_memory(Policies::default());
/// let (ann, ada) = (Principal::new("acme", "ann").operator(), Principal::new("acme", "ada"));
/// let files = "files".into();
/// let allowed = || access.decide(&ada, Some(&files), Some("read"), SystemTime::now());
/// assert!(!allowed().is_allowed(), "the default policy is opt-in");
///
/// let grant = AccessGrantParams::new(EntryType::ServerGrant, "ada", "files", AccessPermission::Allow);
/// access.grant(&ann, grant).await.unwrap();
/// assert_eq!(allowed().rule().as_str(), "server_grant allow for ada on files (by ann)");
/// # });
/// ```
#[derive(Clone)]
pub struct Access(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) state: State<Rules>,
    pub(super) groups: Groups,
    policies: Policies,
    clock: OnceLock<Box<Clock>>,
    /// Held by whoever changes something, so that events are written for what happens.
    pub(super) turn: tokio::sync::Mutex<()>,
    /// Whether entries whose time is over are being removed.
    pub(super) sweeping: AtomicBool,
}

type Clock = dyn Fn() -> SystemTime + Send + Sync;

impl Access {
    /// A book over a store, shared with other processes that use the same; nothing is allowed before it was
    /// [opened](Self::open): an entry that nobody has read may be one that denies.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, audit: Arc<dyn AuditSink>, policies: Policies) -> Self {
        let access = Self(Arc::new(Inner {
            state: State::new(store, audit),
            groups: Groups::default(),
            policies,
            clock: OnceLock::new(),
            turn: tokio::sync::Mutex::default(),
            sweeping: AtomicBool::new(false),
        }));
        let weak = Arc::downgrade(&access.0);
        access.0.state.on_change(move || weak.upgrade().map(|inner| Self(inner).sweep_soon()));
        access
    }

    /// A book that lives as long as the process, and keeps the last events in memory.
    #[must_use]
    pub fn in_memory(policies: Policies) -> Self {
        Self::new(Arc::new(MemoryStore::new()), Arc::new(MemoryAudit::new()), policies)
    }

    /// Goes by another clock than the system's: for a look at what held at another time, and for tests.
    #[must_use]
    pub fn clock(self, now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        // The first one stays: decisions do not go back and forth in time.
        let _ = self.0.clock.set(Box::new(now));
        self
    }

    /// Reads the entries of the store and follows their changes from then on.
    ///
    /// # Errors
    /// [`StoreError`] when they cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future reads nothing, and it can be called again.
    pub async fn open(&self) -> Result<(), StoreError> {
        self.0.state.open().await
    }

    /// Decides about a tool, or about a whole server where none is named, at a time.
    ///
    /// `server` is none where it is our own and has no name: then no entry is about it, and the default policy decides.
    /// It reads a snapshot and never waits. What the credentials of a call permit comes on top: the layer and
    /// [`Visibility`] look at that.
    #[must_use]
    pub fn decide(
        &self,
        principal: &Principal,
        server: Option<&ServerId>,
        tool: Option<&str>,
        at: SystemTime,
    ) -> Decided {
        self.look(principal, server, tool, &Moment::of(&|| at))
    }

    /// Whether a caller sees what belongs to a server as a whole: its resources and prompts.
    ///
    /// # Errors
    /// [`Hidden`] with the rule that hides it.
    pub fn sees_server(&self, cx: &Context, server: &ServerId) -> Result<(), Hidden> {
        if self.plainly_allows(cx, Some(server), None) {
            return Ok(());
        }
        shown(self.decide_call(cx, Some(server), None))
    }

    /// The entry in force that names a tool and allows it, where no other on that level denies.
    ///
    /// The agent's own comes before those of its groups, and these before everyone's.
    #[must_use]
    pub fn named(
        &self,
        principal: &Principal,
        server: Option<&ServerId>,
        tool: &str,
        at: SystemTime,
    ) -> Option<Arc<Entry>> {
        let rules = self.0.state.now().ok()?;
        let server = server?.as_str();
        let entry = self.0.seek(principal, |seeker| {
            rules.find_tool(seeker?, server, tool, &Moment::of(&|| at)).cloned()
        })?;
        (entry.access.permission == AccessPermission::Allow).then_some(entry)
    }

    /// Runs after each change that may let somebody use more or less: of an entry, its end, a policy, a group.
    ///
    /// It must not wait. Tell listeners that their lists changed here, and drop what was kept.
    pub fn on_change<L: Into<Listening>>(&self, hook: impl Fn() -> L + Send + Sync + 'static) {
        let hook = Arc::new(hook);
        let (of_state, of_policies) = (Arc::clone(&hook), Arc::clone(&hook));
        self.0.state.on_change(move || of_state());
        self.0.policies.on_change(move || of_policies());
        self.0.groups.on_change(move || hook());
    }

    /// The groups of agents, to set them from configuration.
    #[must_use]
    pub fn groups(&self) -> &Groups {
        &self.0.groups
    }

    /// The time that counts.
    pub(super) fn now(&self) -> SystemTime {
        self.0.clock.get().map_or_else(SystemTime::now, |clock| clock())
    }

    /// Decides at the time that counts.
    pub(super) fn decide_now(
        &self,
        principal: &Principal,
        server: Option<&ServerId>,
        tool: Option<&str>,
    ) -> Decided {
        self.look(principal, server, tool, &Moment::of(&|| self.now()))
    }

    /// Decides about a call: the entries and the policy, then what its credentials permit.
    ///
    /// # Errors
    /// [`PassEnded`] when they no longer hold.
    pub(super) fn decide_call(
        &self,
        cx: &Context,
        server: Option<&ServerId>,
        tool: Option<&str>,
    ) -> Result<Decided, PassEnded> {
        let credentials = Credentials::of(cx);
        credentials.hold()?;
        let decided = self.decide_now(&cx.principal, server, tool);
        // What is narrowed to some tools of a server is narrowed to less than the server.
        let need = tool.map_or(Need::Server, Need::Call);
        if decided.is_allowed()
            && let Err(lacking) = credentials.permit(need)
        {
            return Ok(Decided::lacking(lacking));
        }
        Ok(decided)
    }

    /// Refuses a call of somebody who has no access to a tool, or to a whole server where none is named.
    pub(crate) fn allow(
        &self,
        cx: &Context,
        server: Option<&ServerId>,
        tool: Option<&str>,
    ) -> Result<(), Refusal> {
        if self.plainly_allows(cx, server, tool) {
            return Ok(());
        }
        let decided = self.decide_call(cx, server, tool)?;
        if decided.is_allowed() {
            return Ok(());
        }
        Err(AccessDenied::new(name_of(&cx.principal), server, tool, &decided).into())
    }

    /// Whether an entry allows it to a caller whose credentials narrow nothing: the most common answer, without its
    /// reasons. Every other one is decided with them.
    fn plainly_allows(&self, cx: &Context, server: Option<&ServerId>, tool: Option<&str>) -> bool {
        let Some(server) = server else { return false };
        if Credentials::of(cx).are_there() {
            return false;
        }
        let clock = || self.now();
        let at = Moment::of(&clock);
        self.0.seek(&cx.principal, |seeker| {
            let Some(seeker) = seeker else { return false };
            let allows = |rules: &Rules| {
                rules
                    .find(seeker, server.as_str(), tool, &at)
                    .is_some_and(|entry| entry.access.permission == AccessPermission::Allow)
            };
            self.0.state.look(allows).unwrap_or(false)
        })
    }

    /// Whether a caller sees one tool of a list.
    pub(super) fn lists(&self, cx: &Context, server: Option<&ServerId>, tool: &str) -> bool {
        self.decide_now(&cx.principal, server, Some(tool)).is_allowed()
            && Credentials::of(cx).permit(Need::See(tool)).is_ok()
    }

    /// Whether a caller sees every tool of a server, whatever its tools are.
    pub(super) fn lists_all(&self, cx: &Context, server: Option<&ServerId>) -> bool {
        if Credentials::of(cx).permit(Need::SeeAll).is_err()
            || !self.decide_now(&cx.principal, server, None).is_allowed()
        {
            return false;
        }
        let (Some(server), Ok(rules)) = (server, self.0.state.now()) else {
            return server.is_none();
        };
        let clock = || self.now();
        let at = Moment::of(&clock);
        self.0.seek(&cx.principal, |seeker| {
            seeker.is_some_and(|seeker| !rules.denies_a_tool(seeker, server.as_str(), &at))
        })
    }

    fn look(
        &self,
        principal: &Principal,
        server: Option<&ServerId>,
        tool: Option<&str>,
        at: &Moment<'_>,
    ) -> Decided {
        self.0.seek(principal, |seeker| match seeker {
            Some(seeker) => self.look_for(seeker, server, tool, at),
            None => Decided::reserved(),
        })
    }

    /// Decides for an agent, a group or everyone.
    pub(super) fn look_for(
        &self,
        seeker: Seeker<'_>,
        server: Option<&ServerId>,
        tool: Option<&str>,
        at: &Moment<'_>,
    ) -> Decided {
        let Ok(rules) = self.0.state.now() else { return Decided::unknown() };
        match server.and_then(|server| rules.find(seeker, server.as_str(), tool, at)) {
            Some(entry) => Decided::by(entry),
            None => Decided::policy(self.0.policies.of(server).default_policy),
        }
    }
}

impl Inner {
    /// Looks with the eyes of a principal; none where its name is no agent's.
    fn seek<T>(&self, principal: &Principal, look: impl FnOnce(Option<Seeker<'_>>) -> T) -> T {
        self.seek_agent(principal.tenant().as_str(), name_of(principal), look)
    }

    /// The same for a name.
    pub(super) fn seek_agent<T>(
        &self,
        tenant: &str,
        agent: &str,
        look: impl FnOnce(Option<Seeker<'_>>) -> T,
    ) -> T {
        if !matches!(Who::of(agent), Who::Agent(_)) {
            return look(None);
        }
        let groups = self.groups.of(tenant, agent);
        let groups = groups.as_deref().unwrap_or_default();
        look(Some(Seeker { tenant, agent: Some(agent), groups }))
    }
}

/// A tool is seen where it may be called, its caller's credentials included.
///
/// [`AccessLayer`](super::AccessLayer) also lists what credentials permit to see and not to call.
impl Visibility for Access {
    fn sees(&self, cx: &Context, server: Option<&ServerId>, tool: &str) -> Result<(), Hidden> {
        shown(self.decide_call(cx, server, Some(tool)))
    }
}

fn shown(decided: Result<Decided, PassEnded>) -> Result<(), Hidden> {
    match decided {
        Ok(decided) if decided.is_allowed() => Ok(()),
        Ok(decided) => Err(Hidden::by(decided.rule().as_str().to_owned())),
        Err(ended) => Err(Hidden::by(ended.to_string())),
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Access")
    }
}
