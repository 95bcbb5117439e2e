//! The handle: what is decided about permissions of servers, by policy, configuration and operators.
//!
//! Applies to: both.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use mgp_types::Object;
use mgp_types::mgp::{ApprovalPolicy, Permission};
use mgp_types::service::{AuditSink, MemoryAudit, Principal, ServerId};
use mgp_types::store::{MemoryStore, Store, StoreError};
use tokio::sync::watch;

use super::asking::Board;
use super::book::{Book, Held};
use super::entry::{Approval, ApprovalDecision, ApprovalSource, Place};
use super::refused::PermissionRefused;
use super::rule::{Missing, MissingStatus, Stand};
use crate::approval::Approver;
use crate::hooks::Listening;
use crate::policy::{ConfirmRule, Policies, ServerPolicy};
use crate::state::State;

/// How long a decision is waited for that the beginning of a connection asked for.
///
/// A connection goes on without it much sooner, and its server is told of a decision that comes later.
const CONNECT_WAIT: Duration = Duration::from_mins(10);

/// What servers may do: approvals in a store, applied by the policy of each server; a cheap handle.
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
    pub(super) inner: Arc<Inner>,
    pub(super) call_wait: Duration,
    pub(super) connect_wait: Duration,
}

pub(super) struct Inner {
    pub(super) state: State<Book>,
    pub(super) policies: Policies,
    pub(super) approver: Option<Arc<dyn Approver>>,
    /// The questions that wait for an answer now.
    pub(super) board: Board,
    /// Held while somebody reads the newest entries and writes.
    pub(super) turn: tokio::sync::Mutex<()>,
    pub(super) sweeping: AtomicBool,
    moved: Arc<watch::Sender<u64>>,
}

/// What becomes of a call.
pub(super) enum Verdict {
    /// It has all it needs.
    Pass,
    /// Something must be asked or written down first.
    Settle,
    /// It lacks something, and nobody is asked.
    Refuse(PermissionRefused),
}

/// What came of asking about a permission.
#[derive(Clone, Debug)]
pub(super) enum Note {
    /// Somebody decided.
    Decided,
    /// Whoever was asked has not decided.
    Deferred(String),
    /// Nobody could be asked, or the answer could not be kept.
    Failed(String),
}

/// What came of asking for one call; about nothing it asks twice.
#[derive(Debug, Default)]
pub(super) struct Notes {
    asked: Vec<(Permission, Note)>,
    /// What whoever waits should know.
    pub(super) details: Object,
}

impl Notes {
    pub(super) fn add(&mut self, permission: &Permission, note: Note) {
        if self.of(permission).is_none() {
            self.asked.push((permission.clone(), note));
        }
    }

    pub(super) fn of(&self, permission: &Permission) -> Option<&Note> {
        self.asked.iter().find(|(asked, _)| asked == permission).map(|(_, note)| note)
    }
}

impl Permissions {
    /// Permissions that are kept in a store; until it was [opened](Self::open) only the policies are known.
    ///
    /// Without an approver nobody can be asked, and what is undecided is refused.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        audit: Arc<dyn AuditSink>,
        policies: Policies,
        approver: Option<Arc<dyn Approver>>,
    ) -> Self {
        let moved = Arc::new(watch::Sender::new(0));
        let call_wait = approver.as_ref().map_or(Duration::ZERO, Approver::patience);
        let inner = Arc::new(Inner {
            state: State::new(store, audit),
            policies,
            approver,
            board: Board::default(),
            turn: tokio::sync::Mutex::default(),
            sweeping: AtomicBool::new(false),
            moved: Arc::clone(&moved),
        });
        let permissions = Self { inner, call_wait, connect_wait: CONNECT_WAIT };
        let weak = Arc::downgrade(&permissions.inner);
        permissions.on_change(move || {
            moved.send_modify(|count| *count += 1);
            weak.upgrade().map(|inner| super::expiry::sweep_soon(&inner))
        });
        permissions
    }

    /// Permissions that are kept as long as the process runs; nobody is asked.
    #[must_use]
    pub fn in_memory(policies: Policies) -> Self {
        Self::new(Arc::new(MemoryStore::new()), Arc::new(MemoryAudit::new()), policies, None)
    }

    /// Sets how long a call waits for somebody to decide, and how long the question of a connection stays open.
    ///
    /// After that the decision is deferred. They are the approver's patience, and 10 minutes:
    /// longer than a connection waits before it goes on, so that a late decision can still come.
    #[must_use]
    pub fn waits(self, call: Duration, connect: Duration) -> Self {
        Self { call_wait: call, connect_wait: connect, ..self }
    }

    /// Reads what was decided and follows it from then on.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it unread.
    pub async fn open(&self) -> Result<(), StoreError> {
        self.inner.state.open().await
    }

    /// The permissions that a call lacks now; none where it may run, or would once its policy is written down.
    #[must_use]
    pub fn missing(
        &self,
        principal: &Principal,
        server: Option<&ServerId>,
        tool: &str,
        needed: &[Permission],
        arguments: Option<&str>,
        at: SystemTime,
    ) -> Vec<Missing> {
        let inner = &*self.inner;
        let needed = standard(needed);
        let book = match inner.state.now() {
            Ok(book) => book,
            Err(error) => {
                let missing = |permission: &Permission| Missing {
                    permission: permission.clone(),
                    status: MissingStatus::Undecided,
                    why: error.to_string(),
                };
                return needed.iter().map(missing).collect();
            }
        };
        let policy = inner.policies.of(server);
        let held = book.held(principal.tenant(), server);
        let stands = needed.iter().map(|permission| {
            inner.stand(&policy, server, held, permission, at).missing(permission, tool, arguments)
        });
        stands.flatten().collect()
    }

    /// An operator's approval in force that names a tool, with what it says about confirming (§4.4).
    ///
    /// Of several the one that says `never` comes first.
    /// Under `config_only` none counts.
    #[must_use]
    pub fn names_tool(
        &self,
        principal: &Principal,
        server: Option<&ServerId>,
        tool: &str,
        at: SystemTime,
    ) -> Option<Arc<Approval>> {
        let policy = self.inner.policies.of(server);
        if !matches!(
            policy.permission_policy,
            ApprovalPolicy::Interactive | ApprovalPolicy::AutoApprove | ApprovalPolicy::DenyAll
        ) {
            return None;
        }
        let book = self.inner.state.now().ok()?;
        let naming = book.held(principal.tenant(), server).iter().filter(|held| {
            let approval = &held.approval;
            approval.decision == ApprovalDecision::Approved
                && approval.source == ApprovalSource::Operator
                && !held.is_over(at)
                && approval.tools.iter().any(|named| named == tool)
        });
        let first = naming.max_by_key(|held| held.approval.confirm == Some(ConfirmRule::Never));
        first.map(|held| Arc::clone(&held.approval))
    }

    /// Runs after each change of what is decided or configured, and when something ends; it must not wait.
    pub fn on_change<L: Into<Listening>>(&self, hook: impl Fn() -> L + Send + Sync + 'static) {
        let hook = Arc::new(hook);
        let same = Arc::clone(&hook);
        self.inner.state.on_change(move || same());
        self.inner.policies.on_change(move || hook());
    }

    /// Moves with each change, as [`on_change`](Self::on_change) tells it.
    #[must_use]
    pub fn moves(&self) -> watch::Receiver<u64> {
        self.inner.moved.subscribe()
    }

    /// Decides about a call from what is known, without waiting.
    pub(super) fn verdict(
        &self,
        principal: &Principal,
        server: Option<&ServerId>,
        tool: &str,
        needed: &[Permission],
        arguments: Option<&str>,
    ) -> Verdict {
        let inner = &*self.inner;
        let book = match inner.state.now() {
            Ok(book) => book,
            Err(error) => return Verdict::Refuse(PermissionRefused::unreadable(&error)),
        };
        let policy = inner.policies.of(server);
        let held = book.held(principal.tenant(), server);
        let at = SystemTime::now();
        let needed = standard(needed);
        let (mut open, mut closed, mut by_policy) = (false, false, false);
        let mut missing = Vec::new();
        for permission in needed.iter() {
            let stand = inner.stand(&policy, server, held, permission, at);
            let is_open = matches!(stand, Stand::Open(..));
            by_policy |= matches!(stand, Stand::ByPolicy);
            if let Some(lack) = stand.missing(permission, tool, arguments) {
                open |= is_open;
                closed |= !is_open;
                missing.push(lack);
            }
        }
        // Nobody is asked for a call that would be refused whatever the answer is.
        if closed || open && inner.approver.is_none() {
            return Verdict::Refuse(PermissionRefused::call(
                server,
                tool,
                &missing,
                &Object::new(),
            ));
        }
        if open || by_policy { Verdict::Settle } else { Verdict::Pass }
    }
}

impl Inner {
    /// How a permission stands, with what the approver has in its configuration.
    pub(super) fn stand<'a>(
        &self,
        policy: &ServerPolicy,
        server: Option<&ServerId>,
        held: &'a [Held],
        permission: &Permission,
        at: SystemTime,
    ) -> Stand<'a> {
        Stand::of(policy, held, permission, at, || self.is_configured(server, permission))
    }

    /// Whether the approver grants a permission without asking anybody.
    pub(super) fn is_configured(&self, server: Option<&ServerId>, permission: &Permission) -> bool {
        self.approver.as_ref().is_some_and(|approver| approver.grants(server, permission))
    }

    /// The place of approvals for a caller.
    pub(super) fn place(principal: &Principal, server: Option<&ServerId>) -> Place {
        Place { tenant: principal.tenant().clone(), server: server.cloned() }
    }
}

/// Permissions by their standard names.
pub(super) fn standard(permissions: &[Permission]) -> Cow<'_, [Permission]> {
    if permissions.iter().any(|permission| matches!(permission, Permission::Other(_))) {
        return Cow::Owned(Permission::canonical(permissions));
    }
    Cow::Borrowed(permissions)
}

impl fmt::Debug for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.state.fmt(f)
    }
}
