//! The access entries: opened, read for decisions, watched for changes (MGP §5.2).

use std::sync::Arc;
use std::time::SystemTime;

use mgp_types::mgp::{AccessPermission, DefaultPolicy};
use mgp_types::service::{
    AuditSink, Context, Hidden, MemoryAudit, Principal, ServerId, Visibility,
};
use mgp_types::store::{MemoryStore, Store, StoreError};

use super::decision::{AccessDecision, AccessRuling};
use super::entry::{Entry, Subject, name_of};
use super::groups::Groups;
use super::pass::{Credentials, CredentialsExpired, Need};
use super::rules::{Moment, Rules, Seeker};
use crate::entries::Entries;
use crate::hooks::HookState;
use crate::policy::Policies;
use crate::tool::NamedTool;

/// Access entries and the decisions they lead to; a cheap handle.
///
/// There is one decision, for calls and for every list: an entry for the tool, else one for the server, else the
/// server's default policy.
/// On one level an entry that denies beats all that allow, whether it is for the agent, for one of its groups or for
/// everyone.
/// An expired entry counts as absent, and so does an entry of another tenant.
///
/// Operators' own calls are decided like all others: operators may change what is allowed, and that is on the record.
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
pub struct Access(Arc<Handles>);

struct Handles {
    entries: Entries<Rules>,
    groups: Groups,
    policies: Policies,
}

mgp_types::opaque_debug!(Access);

impl Access {
    /// Creates entries over a store that other processes may share.
    ///
    /// Nothing is allowed until it was [opened](Self::open): an entry that was not read may be one that denies.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, audit: Arc<dyn AuditSink>, policies: Policies) -> Self {
        let entries = Entries::new(store, audit);
        Self(Arc::new(Handles { entries, groups: Groups::default(), policies }))
    }

    /// Creates entries that live as long as the process; the last events are kept in memory.
    #[must_use]
    pub fn in_memory(policies: Policies) -> Self {
        Self::new(Arc::new(MemoryStore::new()), Arc::new(MemoryAudit::new()), policies)
    }

    /// Replaces the clock of the system: to find out what was allowed at another time, and for tests.
    ///
    /// The first replacement stays: decisions do not jump back and forth in time.
    #[must_use]
    pub fn clock(self, now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.0.entries.set_clock(now);
        self
    }

    /// Reads the entries of the store and follows their changes from then on.
    ///
    /// # Errors
    /// [`StoreError`] if they cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future reads nothing, and it can be called again.
    pub async fn open(&self) -> Result<(), StoreError> {
        self.0.entries.state().open().await
    }

    /// Decides about a tool, or about a whole server if no tool is named, at a time.
    ///
    /// `server` is `None` if the tools are our own and have no server id: no entry is about those, and the default
    /// policy decides.
    /// This reads a snapshot and never waits. What the credentials of a call permit narrows it further: the layer and
    /// [`Visibility`] check that.
    #[must_use]
    pub fn decide(
        &self,
        principal: &Principal,
        server: Option<&ServerId>,
        tool: Option<&str>,
        at: SystemTime,
    ) -> AccessDecision {
        let default = || self.default_policy(server);
        let server = server.map(ServerId::as_str);
        self.view(principal).decide(server, tool, &Moment::of(&|| at), default).to_decision()
    }

    /// Returns whether a caller sees what belongs to a server as a whole: its resources and prompts.
    ///
    /// # Errors
    /// [`Hidden`] with the rule that hides it.
    pub fn sees_server(&self, cx: &Context, server: &ServerId) -> Result<(), Hidden> {
        self.check_now(cx, Some(server), None, Need::Server)
    }

    /// Returns the entry in force that names a tool and allows it, unless another entry for that tool denies.
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
        self.view(principal).named(server, tool, &Moment::of(&|| at)).cloned()
    }

    /// Runs a hook after each change that may let a caller use more or less: of an entry, its end, a policy, a group.
    ///
    /// It must not wait. Notify listeners of changed lists here, and drop cached lists.
    pub fn on_change<L: Into<HookState>>(&self, hook: impl Fn() -> L + Send + Sync + 'static) {
        let hook = Arc::new(hook);
        let (of_entries, of_policies) = (Arc::clone(&hook), Arc::clone(&hook));
        self.0.entries.state().on_change(move || of_entries());
        self.0.policies.on_change(move || of_policies());
        self.0.groups.on_change(move || hook());
    }

    /// Returns the groups of agents, to set them from configuration.
    #[must_use]
    pub fn groups(&self) -> &Groups {
        &self.0.groups
    }

    pub(super) fn entries(&self) -> &Entries<Rules> {
        &self.0.entries
    }

    /// Returns the time that decides about ends.
    pub(crate) fn now(&self) -> SystemTime {
        self.0.entries.now()
    }

    pub(crate) fn policies(&self) -> &Policies {
        &self.0.policies
    }

    pub(crate) fn default_policy(&self, server: Option<&ServerId>) -> DefaultPolicy {
        self.0.policies.get(server).default_policy
    }

    /// Reads what decides about one principal.
    #[inline]
    pub(crate) fn view<'a>(&self, principal: &'a Principal) -> AccessView<'a> {
        self.view_agent(principal.tenant().as_str(), name_of(principal))
    }

    /// Reads what decides about one name of a tenant.
    #[inline]
    pub(super) fn view_agent<'a>(&self, tenant: &'a str, agent: &'a str) -> AccessView<'a> {
        let is_agent = matches!(Subject::of(agent), Subject::Agent(_));
        let groups = if is_agent { self.0.groups.of(tenant, agent) } else { None };
        let agent = is_agent.then_some(agent);
        AccessView { rules: self.0.entries.state().now().ok(), tenant, agent, groups }
    }

    /// Decides at the present time, with what the credentials of a call permit.
    ///
    /// # Errors
    /// [`Hidden`] with the rule that does not allow it.
    fn check_now(
        &self,
        cx: &Context,
        server: Option<&ServerId>,
        tool: Option<&str>,
        need: Need<'_>,
    ) -> Result<(), Hidden> {
        let clock = || self.now();
        let default = || self.default_policy(server);
        let (at, view) = (Moment::of(&clock), self.view(&cx.principal));
        let (server, credentials) = (server.map(ServerId::as_str), Credentials::of(cx));
        hidden(view.judge(credentials, server, tool, need, &at, default))
    }

    /// Returns whether a caller sees one tool of a list.
    pub(crate) fn lists(&self, cx: &Context, server: Option<&ServerId>, tool: &str) -> bool {
        self.check_now(cx, server, Some(tool), Need::See(tool)).is_ok()
    }

    /// Returns whether a caller sees every tool of a server, whatever its tools are.
    pub(crate) fn lists_all(&self, cx: &Context, server: Option<&ServerId>) -> bool {
        if self.check_now(cx, server, None, Need::SeeAll).is_err() {
            return false;
        }
        let Some(server) = server else { return true };
        let clock = || self.now();
        !self.view(&cx.principal).denies_a_tool(server, &Moment::of(&clock))
    }
}

/// The entries that decide about the access of one principal, read once.
pub(crate) struct AccessView<'a> {
    /// `None` while the entries cannot be read.
    rules: Option<Arc<Rules>>,
    tenant: &'a str,
    /// `None` if the name is one that entries reserve for groups and for everyone.
    agent: Option<&'a str>,
    groups: Option<Arc<[Box<str>]>>,
}

impl AccessView<'_> {
    fn seeker(&self) -> Option<Seeker<'_>> {
        let groups = self.groups.as_deref().unwrap_or_default();
        Some(Seeker { tenant: self.tenant, agent: Some(self.agent?), groups })
    }

    #[inline]
    fn decide(
        &self,
        server: Option<&str>,
        tool: Option<&str>,
        at: &Moment<'_>,
        default: impl FnOnce() -> DefaultPolicy,
    ) -> AccessRuling<'_> {
        match self.seeker() {
            Some(seeker) => self.decide_for(seeker, server, tool, at, default),
            None => AccessRuling::Reserved,
        }
    }

    /// Decides for an agent, a group or everyone.
    #[inline]
    pub(super) fn decide_for(
        &self,
        seeker: Seeker<'_>,
        server: Option<&str>,
        tool: Option<&str>,
        at: &Moment<'_>,
        default: impl FnOnce() -> DefaultPolicy,
    ) -> AccessRuling<'_> {
        let Some(rules) = &self.rules else { return AccessRuling::Unknown };
        match server.and_then(|server| rules.find(seeker, server, tool, at)) {
            Some(entry) => AccessRuling::Entry(entry),
            None => AccessRuling::Policy(default()),
        }
    }

    /// Decides about a call or a list: the entries and the policy, then what the credentials permit.
    ///
    /// # Errors
    /// [`CredentialsExpired`] if the credentials have ended.
    #[inline]
    pub(crate) fn judge(
        &self,
        credentials: Credentials<'_>,
        server: Option<&str>,
        tool: Option<&str>,
        need: Need<'_>,
        at: &Moment<'_>,
        default: impl FnOnce() -> DefaultPolicy,
    ) -> Result<AccessRuling<'_>, CredentialsExpired> {
        credentials.check_end()?;
        let decision = self.decide(server, tool, at, default);
        match credentials.permit(need, server) {
            Err(lacking) if decision.is_allowed() => Ok(AccessRuling::Lacking(lacking)),
            _ => Ok(decision),
        }
    }

    /// Returns the entry that names a tool and decides about it, if it allows.
    pub(crate) fn named(
        &self,
        server: Option<&ServerId>,
        tool: &str,
        at: &Moment<'_>,
    ) -> Option<&Arc<Entry>> {
        let entry = self.rules.as_ref()?.find_tool(self.seeker()?, server?.as_str(), tool, at)?;
        (entry.access.permission == AccessPermission::Allow).then_some(entry)
    }

    /// Returns what entries decide about the confirmation of calls of a tool: one that names it, or one for its whole
    /// server with the rule `never`.
    pub(crate) fn naming(
        &self,
        server: Option<&ServerId>,
        tool: &str,
        at: &Moment<'_>,
    ) -> Option<NamedTool> {
        let of_tool = self.named(server, tool, at).map(|entry| entry.naming(tool));
        let whole = || self.rules.as_ref()?.find_server(self.seeker()?, server?.as_str(), at);
        let spares = |entry: &&Arc<Entry>| {
            entry.access.permission == AccessPermission::Allow && entry.confirm.is_some()
        };
        let of_server = whole().filter(spares).map(|entry| entry.naming(tool));
        of_tool.into_iter().chain(of_server).reduce(NamedTool::stronger)
    }

    fn denies_a_tool(&self, server: &ServerId, at: &Moment<'_>) -> bool {
        match (&self.rules, self.seeker()) {
            (Some(rules), Some(seeker)) => rules.denies_a_tool(seeker, server.as_str(), at),
            _ => true,
        }
    }
}

/// A tool is seen if it may be called, the caller's credentials included.
///
/// [`AccessLayer`](crate::AccessLayer) also lists what credentials permit to see and not to call.
impl Visibility for Access {
    fn sees(&self, cx: &Context, server: Option<&ServerId>, tool: &str) -> Result<(), Hidden> {
        self.check_now(cx, server, Some(tool), Need::Call(tool))
    }
}

/// Returns the rule that hides something, unless it is allowed.
pub(crate) fn hidden(ruling: Result<AccessRuling<'_>, CredentialsExpired>) -> Result<(), Hidden> {
    match ruling {
        Ok(ruling) if ruling.is_allowed() => Ok(()),
        Ok(ruling) => Err(Hidden::new(ruling.to_decision().rule().as_str().to_owned())),
        Err(ended) => Err(Hidden::new(ended.to_string())),
    }
}
