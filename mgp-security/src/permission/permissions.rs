//! The decisions about permissions of servers, by policy, configuration and operators.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mgp_types::Object;
use mgp_types::mgp::{ApprovalPolicy, Permission};
use mgp_types::service::{AuditSink, MemoryAudit, Principal, ServerId};
use mgp_types::store::{MemoryStore, Store, StoreError};
use tokio::sync::watch;

use super::asking::OpenQuestions;
use super::book::{Book, StoredApproval};
use super::declared::DeclaredPermissions;
use super::entry::{Approval, ApprovalDecision, ApprovalOwner, ApprovalSource};
use super::rule::{MissingPermission, MissingStatus, PermissionNeed, PermissionState};
use crate::approval::Approver;
use crate::entries::Entries;
use crate::hooks::HookState;
use crate::policy::{ConfirmRule, Policies, ServerPolicy, withholds};

/// The time limit for a decision about permissions that a server requests when a connection is opened.
///
/// The connection does not wait that long: it proceeds without the decision, and the server is notified once the
/// decision is made.
const CONNECT_WAIT: Duration = Duration::from_mins(10);

/// The permissions of servers: approvals in a store, applied according to the policy of each server. A handle that
/// is cheap to clone.
///
/// ```
/// use mgp_security::{Permissions, PermissionChange, Policies};
/// use mgp_types::mgp::Permission;
/// use mgp_types::service::Principal;
/// use std::time::SystemTime;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let permissions = Permissions::in_memory(Policies::default());
/// let (agent, operator) = (Principal::local().agent("one"), Principal::local().operator());
/// let missing = || {
///     let needed = [Permission::FilesystemRead];
///     permissions.missing(&agent, Some(&"files".into()), "read", &needed, None, SystemTime::now()).len()
/// };
/// assert_eq!(missing(), 1);
///
/// let change = PermissionChange::new(Some("files".into()), ["filesystem".into()]);
/// permissions.approve(&operator, change).await.unwrap();
/// assert_eq!(missing(), 0);
/// # });
/// ```
#[derive(Clone)]
pub struct Permissions {
    pub(super) inner: Arc<PermissionCore>,
    /// The time limit for the questions of calls, if [`waits`](Self::waits) set one.
    call_wait: Option<Duration>,
    pub(super) connect_wait: Duration,
}

pub(crate) struct PermissionCore {
    pub(super) entries: Entries<Book>,
    pub(super) policies: Policies,
    pub(super) approver: Option<Arc<dyn Approver>>,
    pub(super) declared: DeclaredPermissions,
    /// The questions that approvers have not answered yet.
    pub(super) board: OpenQuestions,
    moved: Arc<watch::Sender<u64>>,
}

#[derive(Clone, Debug)]
pub(crate) enum AskOutcome {
    /// The approver has decided.
    Decided,
    /// The approver has not decided; the text explains why.
    Deferred(String),
    /// No approver could be asked, or its answer could not be stored; the text explains why.
    Failed(String),
}

/// The outcomes of all questions of one call; a call asks about each permission at most once.
#[derive(Debug, Default)]
pub(crate) struct AskOutcomes {
    asked: Vec<(Permission, AskOutcome)>,
    /// Details for the caller, e.g. the id of an approval request and the next step.
    pub(super) details: Object,
}

impl AskOutcomes {
    pub(super) fn add(&mut self, permission: &Permission, note: AskOutcome) {
        if self.of(permission).is_none() {
            self.asked.push((permission.clone(), note));
        }
    }

    pub(super) fn of(&self, permission: &Permission) -> Option<&AskOutcome> {
        self.asked.iter().find(|(asked, _)| asked == permission).map(|(_, note)| note)
    }
}

impl Permissions {
    /// Creates permissions over a store. Until the store has been read (see [`open`](Self::open)), a call that needs a
    /// permission is refused, whatever the policy.
    ///
    /// Without an approver, calls that need an undecided permission are refused.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        audit: Arc<dyn AuditSink>,
        policies: Policies,
        approver: Option<Arc<dyn Approver>>,
    ) -> Self {
        let moved = Arc::new(watch::Sender::new(0));
        let inner = Arc::new(PermissionCore {
            entries: Entries::new(store, audit),
            policies,
            approver,
            declared: DeclaredPermissions::default(),
            board: OpenQuestions::default(),
            moved: Arc::clone(&moved),
        });
        let permissions = Self { inner, call_wait: None, connect_wait: CONNECT_WAIT };
        permissions.on_change(move || moved.send_modify(|count| *count += 1));
        permissions
    }

    /// Creates permissions that are stored in memory, lost when the process ends, and have no approver.
    #[must_use]
    pub fn in_memory(policies: Policies) -> Self {
        Self::new(Arc::new(MemoryStore::new()), Arc::new(MemoryAudit::new()), policies, None)
    }

    /// Sets the time limits for decisions: `call` for a call that waits, `connect` for a question that is asked when a
    /// connection is opened.
    ///
    /// At the limit, the decision is deferred. By default, the limit for calls is the approver's, and the limit for
    /// connections is 10 minutes. A connection does not wait that long before it opens; the longer limit lets a late
    /// decision still count.
    #[must_use]
    pub fn waits(self, call: Duration, connect: Duration) -> Self {
        Self { call_wait: Some(call), connect_wait: connect, ..self }
    }

    /// Returns how long a call waits for a decision: as configured, else the approver's time limit, which is read for
    /// each question because it can change at any time.
    pub(super) fn call_wait(&self) -> Duration {
        let limit = || self.inner.approver.as_ref().map_or(Duration::ZERO, Approver::timeout);
        self.call_wait.unwrap_or_else(limit)
    }

    /// Replaces the system clock, as [`Access::clock`](crate::Access::clock) does.
    #[must_use]
    pub fn clock(self, now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.inner.entries.set_clock(now);
        self
    }

    /// Reads the approvals from the store, and follows their changes from then on.
    ///
    /// # Errors
    /// [`StoreError`] if the approvals cannot be read.
    ///
    /// # Cancel safety
    /// If the future is dropped, the approvals may be unread; call this method again.
    pub async fn open(&self) -> Result<(), StoreError> {
        self.inner.entries.state().open().await
    }

    /// Returns the permissions that a call lacks at a given time. An empty list means that the call can run. If a
    /// permission is granted only by the policy, that grant must be recorded before the call runs.
    #[must_use]
    pub fn missing(
        &self,
        principal: &Principal,
        server: Option<&ServerId>,
        tool: &str,
        needed: &[Permission],
        arguments: Option<&str>,
        at: SystemTime,
    ) -> Vec<MissingPermission> {
        let policy = self.inner.policies.get(server);
        let need = PermissionNeed {
            principal,
            server,
            tool,
            needed,
            arguments,
            any_arguments: false,
            definition: None,
            at,
            tools: None,
        };
        self.view().missing(&need, &policy)
    }

    /// Returns whether a server has declared permissions for all of its tools in its handshake.
    pub(crate) fn declares(&self, server: Option<&ServerId>) -> bool {
        self.inner.declared.any(server)
    }

    pub(crate) fn policies(&self) -> &Policies {
        &self.inner.policies
    }

    /// Returns a snapshot of the approvals, for decisions about permissions.
    pub(crate) fn view(&self) -> PermissionView<'_> {
        PermissionView { book: self.inner.entries.state().now(), inner: &self.inner }
    }

    /// Returns an operator's approval in force that names a tool, with its confirmation rule (§4.4).
    ///
    /// An approval with the rule `never` takes precedence. An approval with the rule `usual`, or of a permission that
    /// the policy denies, does not count. Under the policy `config_only`, or an unknown policy, no approval counts.
    #[must_use]
    pub fn names_tool(
        &self,
        principal: &Principal,
        server: Option<&ServerId>,
        tool: &str,
        at: SystemTime,
    ) -> Option<Arc<Approval>> {
        let policy = self.inner.policies.get(server);
        self.view().names_tool(principal, server, tool, &policy, at)
    }

    /// Registers a hook that runs after each change of an approval or a policy, and when an approval expires; it must
    /// not block.
    pub fn on_change<L: Into<HookState>>(&self, hook: impl Fn() -> L + Send + Sync + 'static) {
        let hook = Arc::new(hook);
        let same = Arc::clone(&hook);
        self.inner.entries.state().on_change(move || same());
        self.inner.policies.on_change(move || hook());
    }

    /// Returns a receiver of a counter that increases with each change that [`on_change`](Self::on_change) reports.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.moved.subscribe()
    }
}

/// The decision about all permissions that one call needs.
#[derive(Debug)]
pub(crate) struct PermissionJudgement {
    pub(crate) missing: Vec<MissingPermission>,
    /// `true` if approvers can be asked about every missing permission. If an approver cannot grant one of them, no
    /// question is asked, because the answer could not allow the call.
    pub(crate) may_ask: bool,
    /// `true` if the policy grants a permission and that grant is not recorded yet.
    pub(crate) to_record: bool,
    /// `true` if a permission that the call needs is granted for some paths only. If this permission does not count as
    /// missing, all paths among the arguments are within the granted paths.
    pub(crate) limits_paths: bool,
    /// A permission whose limits the call may exceed, although no argument certainly does.
    pub(crate) doubt: Option<MissingPermission>,
}

impl PermissionJudgement {
    /// The judgement about a call that needs no permission. This is not the `Default`, because it allows the call.
    pub(crate) const NOTHING_NEEDED: Self = Self {
        missing: Vec::new(),
        may_ask: false,
        to_record: false,
        limits_paths: false,
        doubt: None,
    };

    /// Returns whether the call lacks no permission, or approvers can be asked about all that it lacks.
    pub(crate) fn may_be_granted(&self) -> bool {
        self.may_ask || self.missing.is_empty()
    }
}

/// A snapshot of the approvals, which decides about the permissions of calls.
pub(crate) struct PermissionView<'a> {
    book: Result<Arc<Book>, StoreError>,
    inner: &'a PermissionCore,
}

impl PermissionView<'_> {
    /// Decides about the permissions of a call.
    ///
    /// # Errors
    /// [`StoreError`] while the approvals cannot be read.
    pub(crate) fn judge(
        &self,
        need: &PermissionNeed<'_>,
        policy: &ServerPolicy,
    ) -> Result<PermissionJudgement, StoreError> {
        let book = self.book.as_ref().map_err(Clone::clone)?;
        let PermissionNeed { principal, server, needed, at, .. } = *need;
        let held = book.held(principal.tenant(), server);
        let mut judgement = PermissionJudgement::NOTHING_NEEDED;
        for permission in standard(needed).iter() {
            let stand = self.inner.stand(policy, server, held, permission, at);
            judgement.to_record |= matches!(stand, PermissionState::ByPolicy);
            judgement.limits_paths |= stand.limits_paths();
            if judgement.doubt.is_none() {
                judgement.doubt = stand.doubt(permission, need);
            }
            judgement.missing.extend(stand.missing(permission, need));
        }
        let declared = self.inner.declared.of(server);
        let by = "its server declares it for all of its tools";
        let declared = declared.iter().flat_map(|all| all.iter()).map(|one| (one, true, by));
        let configured = Permission::canonical(&policy.permissions_required);
        // Every call needs these permissions, because a server must not be able to loosen the operator's rule. A denied
        // one is refused to each tool that needs it itself.
        let configured = configured.iter().map(|one| {
            let by = "the configuration requires it for all tools of the server";
            (one, withholds(&policy.denied, one), by)
        });
        for (permission, for_declaring_tools, by) in configured.chain(declared) {
            if judgement.missing.iter().any(|missing| missing.permission == *permission) {
                continue;
            }
            // The limits of an approval are checked only for calls that certainly need the permission.
            let stand = self.inner.stand(policy, server, held, permission, at);
            let may_ask = matches!(stand, PermissionState::Open(..));
            let (status, why) = match stand {
                PermissionState::Granted(_)
                | PermissionState::Listed(_)
                | PermissionState::ByPolicy => continue,
                PermissionState::Open(..) | PermissionState::Closed(..)
                    if for_declaring_tools
                        && need.tools.is_some_and(|tools| tools.declare(permission)) =>
                {
                    continue;
                }
                PermissionState::Open(status, why) | PermissionState::Closed(status, why) => {
                    (status, why)
                }
            };
            let why = format!("{why}; {by}");
            let permission = permission.clone();
            judgement.missing.push(MissingPermission { permission, status, why, may_ask });
        }
        for missing in &mut judgement.missing {
            missing.may_ask &= self.inner.approver.is_some();
        }
        let missing = &judgement.missing;
        judgement.may_ask = !missing.is_empty() && missing.iter().all(|missing| missing.may_ask);
        Ok(judgement)
    }

    /// Returns the permissions that a call lacks. While the approvals cannot be read, returns all permissions that the
    /// call needs.
    pub(crate) fn missing(
        &self,
        need: &PermissionNeed<'_>,
        policy: &ServerPolicy,
    ) -> Vec<MissingPermission> {
        match self.judge(need, policy) {
            Ok(judgement) => judgement.missing,
            Err(error) => {
                let missing = |permission: &Permission| MissingPermission {
                    permission: permission.clone(),
                    status: MissingStatus::Undecided,
                    why: error.to_string(),
                    may_ask: false,
                };
                standard(need.needed).iter().map(missing).collect()
            }
        }
    }

    /// Returns an operator's valid approval that names a tool and affects confirmations, i.e. whose `confirm` is not
    /// `usual`. If there are several, an approval whose `confirm` is `never` takes precedence.
    pub(crate) fn names_tool(
        &self,
        principal: &Principal,
        server: Option<&ServerId>,
        tool: &str,
        policy: &ServerPolicy,
        at: SystemTime,
    ) -> Option<Arc<Approval>> {
        if !matches!(
            policy.permission_policy,
            ApprovalPolicy::Interactive | ApprovalPolicy::AutoApprove | ApprovalPolicy::DenyAll
        ) {
            return None;
        }
        let held = self.book.as_ref().ok()?.held(principal.tenant(), server).iter();
        let naming = held.filter(|held| {
            let approval = &held.approval;
            approval.decision == ApprovalDecision::Approved
                && approval.source == ApprovalSource::Operator
                && !held.is_over(at)
                && approval.confirm != Some(ConfirmRule::Usual)
                && !withholds(&policy.denied, &approval.permission)
                && approval.tools.iter().any(|named| named == tool)
        });
        let first = naming.max_by_key(|held| held.approval.confirm == Some(ConfirmRule::Never));
        first.map(|held| Arc::clone(&held.approval))
    }
}

impl PermissionCore {
    /// Returns the state of one permission, including grants by the approver's configuration.
    pub(super) fn stand<'a>(
        &self,
        policy: &ServerPolicy,
        server: Option<&ServerId>,
        held: &'a [StoredApproval],
        permission: &Permission,
        at: SystemTime,
    ) -> PermissionState<'a> {
        PermissionState::of(policy, held, permission, at, || self.is_configured(server, permission))
    }

    /// Returns whether the approver's configuration grants a permission.
    pub(super) fn is_configured(&self, server: Option<&ServerId>, permission: &Permission) -> bool {
        self.approver.as_ref().is_some_and(|approver| approver.grants(server, permission))
    }

    pub(super) fn place(principal: &Principal, server: Option<&ServerId>) -> ApprovalOwner {
        ApprovalOwner { tenant: principal.tenant().clone(), server: server.cloned() }
    }
}

/// Returns permissions with each short name replaced by the standard names that it represents.
pub(super) fn standard(permissions: &[Permission]) -> Cow<'_, [Permission]> {
    if permissions.iter().any(|permission| matches!(permission, Permission::Other(_))) {
        return Cow::Owned(Permission::canonical(permissions));
    }
    Cow::Borrowed(permissions)
}

mgp_types::opaque_debug!(Permissions);
