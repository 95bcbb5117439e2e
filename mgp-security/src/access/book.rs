//! Reads the access entries of all tenants from the store, follows their changes, and decides with them (MGP §5.2).

use std::collections::BTreeMap;
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
use crate::policy::{ConfirmRule, Policies};
use crate::tool::NamedTool;

/// The access entries, which determine which callers have access to which tools; a handle that is cheap to clone.
///
/// Calls and lists of tools use the same decision. If the policy of the server limits it to some
/// [`tenants`](crate::ServerPolicy::tenants), callers of other tenants have no access. Otherwise an entry for the tool
/// decides first, then an entry for the server, then the server's default policy. Among the entries for the tool, and
/// among those for the server, an entry that denies overrides all entries that allow, whether it is for the agent, for
/// one of its groups or for everyone. Expired entries and entries of other tenants are ignored.
///
/// The same decision applies to calls of operators. An operator who needs access must grant it first, and the grant
/// is recorded.
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
    /// Creates a handle to the access entries in a store. Other processes can use the same store.
    ///
    /// Nothing is allowed before [`open`](Self::open) has read the entries, because an unread entry might deny access.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, audit: Arc<dyn AuditSink>, policies: Policies) -> Self {
        let entries = Entries::new(store, audit);
        Self(Arc::new(Handles { entries, groups: Groups::default(), policies }))
    }

    /// Creates an empty set of entries in memory, lost when the process ends; recent audit events are kept in memory
    /// too.
    #[must_use]
    pub fn in_memory(policies: Policies) -> Self {
        Self::new(Arc::new(MemoryStore::new()), Arc::new(MemoryAudit::new()), policies)
    }

    /// Replaces the system clock, for tests, and for programs that ask what was allowed at another time.
    ///
    /// Only the first call has an effect: decisions must not jump back and forth in time.
    #[must_use]
    pub fn clock(self, now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.0.entries.set_clock(now);
        self
    }

    /// Reads the entries of the store and follows their changes from then on.
    ///
    /// # Errors
    /// [`StoreError`] if the entries cannot be read.
    ///
    /// # Cancel safety
    /// If the future is dropped, the entries might not have been read; call this method again.
    pub async fn open(&self) -> Result<(), StoreError> {
        self.0.entries.state().open().await
    }

    /// Returns the decision about a principal's access at a given time: to a tool, or to a whole server if `tool` is
    /// `None`.
    ///
    /// `server` is `None` for the tools of this process if this process has no server id: no entry can name these
    /// tools, so the default policy decides. This method reads a snapshot and never waits. It does not check the
    /// credentials of a call, which may restrict the access further; [`AccessLayer`](crate::AccessLayer) and
    /// [`Visibility`] check them.
    #[must_use]
    pub fn decide(
        &self,
        principal: &Principal,
        server: Option<&ServerId>,
        tool: Option<&str>,
        at: SystemTime,
    ) -> AccessDecision {
        let default = || self.default_policy(server, principal);
        let server = server.map(ServerId::as_str);
        self.view(principal).decide(server, tool, &Moment::of(&|| at), default).to_decision()
    }

    /// Checks whether a caller may see what belongs to a server as a whole, i.e. its resources and prompts.
    ///
    /// # Errors
    /// [`Hidden`], with the rule that hides the server from the caller.
    pub fn sees_server(&self, cx: &Context, server: &ServerId) -> Result<(), Hidden> {
        self.check_now(cx, Some(server), None, Need::Server)
    }

    /// Returns whether a caller may see at least one tool of a server: by access to the server as a whole, or by an
    /// entry for a tool. The tools of the server need not be known.
    #[must_use]
    pub fn may_see_a_tool(&self, cx: &Context, server: &ServerId) -> bool {
        let (id, credentials) = (Some(server.as_str()), Credentials::of(cx));
        credentials.check_end().is_ok()
            && credentials.permit(Need::SeeAny, id).is_ok()
            && self.allows_a_tool(&cx.principal, server)
    }

    /// Returns whether the access entries and the policy allow a principal at least one tool of a server. Ignores the
    /// permissions of the principal's credentials. The tools of the server need not be known.
    #[must_use]
    pub fn allows_a_tool(&self, principal: &Principal, server: &ServerId) -> bool {
        let clock = || self.now();
        let (at, view) = (Moment::of(&clock), self.view(principal));
        let default = || self.default_policy(Some(server), principal);
        let whole = view.decide(Some(server.as_str()), None, &at, default);
        whole.is_allowed() || view.allows_a_tool(server, &at)
    }

    /// Checks whether a caller may call a tool, according to the access entries and the caller's credentials. Some
    /// credentials permit only to see the tool.
    ///
    /// # Errors
    /// [`Hidden`], with the rule that forbids the call.
    pub fn may_call(&self, cx: &Context, server: &ServerId, tool: &str) -> Result<(), Hidden> {
        self.check_now(cx, Some(server), Some(tool), Need::Call(tool))
    }

    /// Returns the entry in force that names this tool and allows it; an entry for the whole server does not count.
    /// Returns `None` if no entry names and allows the tool, or if another entry for the tool denies it.
    ///
    /// An entry for the agent takes precedence over entries for its groups, and these take precedence over entries for
    /// everyone.
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

    /// Registers a hook that runs whenever the access of a caller might have changed: after a change of an entry, a
    /// policy or a group, and when an entry expires.
    ///
    /// The hook must not block. Use it to invalidate cached lists and to notify clients that lists have changed.
    pub fn on_change<L: Into<HookState>>(&self, hook: impl Fn() -> L + Send + Sync + 'static) {
        let hook = Arc::new(hook);
        let of_entries = Arc::clone(&hook);
        self.0.entries.state().on_change(move || of_entries());
        self.on_shared_change(move || hook());
    }

    /// Registers a hook that runs after each change of a policy or a group, and when the entries can be read again. In
    /// contrast to changes of entries, these changes may affect the callers of all tenants.
    pub(crate) fn on_shared_change<L: Into<HookState>>(
        &self,
        hook: impl Fn() -> L + Send + Sync + 'static,
    ) {
        let hook = Arc::new(hook);
        let (of_policies, of_groups) = (Arc::clone(&hook), Arc::clone(&hook));
        self.0.policies.on_change(move || of_policies());
        self.0.groups.on_change(move || of_groups());
        self.0.entries.state().on_recovery(move || hook());
    }

    /// Returns a number for each tenant that has entries in force. The number of a tenant changes whenever an entry is
    /// added, is removed or expires, or when its permission changes. Returns `None` while the entries cannot be read.
    #[must_use]
    pub fn revisions(&self) -> Option<BTreeMap<String, u64>> {
        Some(self.0.entries.state().now().ok()?.revisions(self.now()))
    }

    /// Returns the groups of agents, so that the program can set them from its configuration.
    #[must_use]
    pub fn groups(&self) -> &Groups {
        &self.0.groups
    }

    pub(super) fn entries(&self) -> &Entries<Rules> {
        &self.0.entries
    }

    /// Returns the current time of the clock against which expiries are compared.
    pub(crate) fn now(&self) -> SystemTime {
        self.0.entries.now()
    }

    pub(crate) fn policies(&self) -> &Policies {
        &self.0.policies
    }

    pub(crate) fn default_policy(
        &self,
        server: Option<&ServerId>,
        principal: &Principal,
    ) -> DefaultPolicy {
        self.0.policies.get(server).default_for(principal.tenant().as_str())
    }

    /// Returns a view of the entries and groups that apply to a principal.
    #[inline]
    pub(crate) fn view<'a>(&'a self, principal: &'a Principal) -> AccessView<'a> {
        self.view_agent(principal.tenant().as_str(), name_of(principal))
    }

    /// Returns a view of the entries and groups that apply to an agent name in a tenant.
    #[inline]
    pub(super) fn view_agent<'a>(&'a self, tenant: &'a str, agent: &'a str) -> AccessView<'a> {
        let is_agent = matches!(Subject::of(agent), Subject::Agent(_));
        let groups = if is_agent { self.0.groups.of(tenant, agent) } else { None };
        let agent = is_agent.then_some(agent);
        let rules = self.0.entries.state().now().ok();
        AccessView { rules, policies: &self.0.policies, tenant, agent, groups }
    }

    /// Checks whether the entries, the default policy and the caller's credentials allow `need` at this moment.
    ///
    /// # Errors
    /// [`Hidden`], with the rule that forbids it.
    fn check_now(
        &self,
        cx: &Context,
        server: Option<&ServerId>,
        tool: Option<&str>,
        need: Need<'_>,
    ) -> Result<(), Hidden> {
        let clock = || self.now();
        let default = || self.default_policy(server, &cx.principal);
        let (at, view) = (Moment::of(&clock), self.view(&cx.principal));
        let (server, credentials) = (server.map(ServerId::as_str), Credentials::of(cx));
        hidden(view.judge(credentials, server, tool, need, &at, default))
    }

    /// Returns whether a tool appears in the lists that a caller gets.
    pub(crate) fn lists(&self, cx: &Context, server: Option<&ServerId>, tool: &str) -> bool {
        self.check_now(cx, server, Some(tool), Need::See(tool)).is_ok()
    }

    /// Returns whether a caller sees every tool of a server, so that its lists need no filter.
    pub(crate) fn lists_all(&self, cx: &Context, server: Option<&ServerId>) -> bool {
        if self.check_now(cx, server, None, Need::SeeAll).is_err() {
            return false;
        }
        let Some(server) = server else { return true };
        let clock = || self.now();
        !self.view(&cx.principal).denies_a_tool(server, &Moment::of(&clock))
    }
}

/// The entries and groups that apply to one principal, taken from one snapshot.
pub(crate) struct AccessView<'a> {
    /// The snapshot of the entries; `None` while they cannot be read.
    rules: Option<Arc<Rules>>,
    policies: &'a Policies,
    tenant: &'a str,
    /// The agent's name; `None` if the name has a form that entries reserve for groups (`group:…`) or everyone (`*`).
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

    /// Returns whether the policy of a server admits the tenant of the principal. Every decision checks this first.
    #[inline]
    pub(super) fn is_admitted(&self, server: Option<&str>) -> bool {
        self.policies.admits(server, self.tenant)
    }

    /// Decides about the access of an agent, a group or everyone, i.e. of any subject that entries can name.
    #[inline]
    pub(super) fn decide_for(
        &self,
        seeker: Seeker<'_>,
        server: Option<&str>,
        tool: Option<&str>,
        at: &Moment<'_>,
        default: impl FnOnce() -> DefaultPolicy,
    ) -> AccessRuling<'_> {
        if !self.is_admitted(server) {
            return AccessRuling::OtherTenants;
        }
        self.decide_by_entries(seeker, server, tool, at, default)
    }

    /// Decides as [`decide_for`](Self::decide_for), but does not check whether the server's policy admits the tenant.
    #[inline]
    pub(super) fn decide_by_entries(
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

    /// Decides about a call or a list: first by entries and policy, then by the permissions of the credentials.
    ///
    /// # Errors
    /// [`CredentialsExpired`] if the credentials have expired or were revoked.
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

    /// Returns the deciding entry if it names this tool and allows access, otherwise `None`.
    pub(crate) fn named(
        &self,
        server: Option<&ServerId>,
        tool: &str,
        at: &Moment<'_>,
    ) -> Option<&Arc<Entry>> {
        let entry = self.rules.as_ref()?.find_tool(self.seeker()?, server?.as_str(), tool, at)?;
        (entry.access.permission == AccessPermission::Allow).then_some(entry)
    }

    /// Returns the requirement of the entries about confirming calls of a tool. Two entries can matter: the entry for
    /// the tool, unless its confirmation rule is `usual`, and the entry for the whole server, if its confirmation rule
    /// is `never`. If both exist, returns the requirement that exempts more calls; if neither exists, returns `None`.
    pub(crate) fn naming(
        &self,
        server: Option<&ServerId>,
        tool: &str,
        at: &Moment<'_>,
    ) -> Option<NamedTool> {
        let of_tool = self.named(server, tool, at);
        let of_tool = of_tool.filter(|entry| entry.confirm != Some(ConfirmRule::Usual));
        let of_tool = of_tool.map(|entry| entry.naming(tool));
        let whole = || self.rules.as_ref()?.find_server(self.seeker()?, server?.as_str(), at);
        let spares = |entry: &&Arc<Entry>| {
            entry.access.permission == AccessPermission::Allow
                && entry.confirm == Some(ConfirmRule::Never)
        };
        let of_server = whole().filter(spares).map(|entry| entry.naming(tool));
        of_tool.into_iter().chain(of_server).reduce(NamedTool::stronger)
    }

    fn allows_a_tool(&self, server: &ServerId, at: &Moment<'_>) -> bool {
        match (&self.rules, self.seeker()) {
            (Some(rules), Some(seeker)) if self.is_admitted(Some(server.as_str())) => {
                rules.allows_a_tool(seeker, server.as_str(), at)
            }
            _ => false,
        }
    }

    fn denies_a_tool(&self, server: &ServerId, at: &Moment<'_>) -> bool {
        match (&self.rules, self.seeker()) {
            (Some(rules), Some(seeker)) => rules.denies_a_tool(seeker, server.as_str(), at),
            _ => true,
        }
    }
}

/// Shows a tool in lists if the caller is allowed to see it. Some credentials permit a caller to see a tool but not to
/// call it.
impl Visibility for Access {
    fn sees(&self, cx: &Context, server: Option<&ServerId>, tool: &str) -> Result<(), Hidden> {
        self.check_now(cx, server, Some(tool), Need::See(tool))
    }
}

/// Converts a decision to a `Result`: `Ok` if access is allowed, else [`Hidden`] with the rule that denies it.
pub(crate) fn hidden(ruling: Result<AccessRuling<'_>, CredentialsExpired>) -> Result<(), Hidden> {
    match ruling {
        Ok(ruling) if ruling.is_allowed() => Ok(()),
        Ok(ruling) => Err(Hidden::new(ruling.to_decision().rule().as_str().to_owned())),
        Err(ended) => Err(Hidden::new(ended.to_string())),
    }
}
