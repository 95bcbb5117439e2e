//! The handle of the inbox, for calls that ask and operators who decide.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use mgp_types::mgp::{Actor, GrantDecision, Permission};
use mgp_types::service::{AuditSink, Context, Principal, ServerId};
use mgp_types::store::{Store, StoreError};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, RpcError, random_name};
use tokio::sync::watch;
use tokio::time::sleep;

use super::request::{ApprovalRequest, RequestState, Requests};
use crate::access::{About as Whom, AdminCheck, Need};
use crate::approval::{ApprovalTerm, Approver, CallApprovals, Decision, LeftOpen, Question};
use crate::audit::Event;
use crate::error::Refusal;
use crate::hooks::HookState;
use crate::state::{State, Writes};

/// The limits of an [`Inbox`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InboxConfig {
    /// The time that a call waits for a decision before it receives the approval id instead. Default: 25 s.
    pub wait: Duration,
    /// The time that a request waits for an operator before it expires. Default: 24 h.
    pub request_ttl: Duration,
    /// The time within which an answer can be used. Default: 1 h.
    pub answer_ttl: Duration,
    /// The maximum number of open requests per caller; further ones are refused. Default: 16.
    pub max_open_per_caller: usize,
    /// The maximum number of open requests of all callers; further ones are refused. Default: 256.
    pub max_open: usize,
}

impl Default for InboxConfig {
    fn default() -> Self {
        Self {
            wait: Duration::from_secs(25),
            request_ttl: Duration::from_hours(24),
            answer_ttl: Duration::from_hours(1),
            max_open_per_caller: 16,
            max_open: 256,
        }
    }
}

/// Stores questions as requests until an operator decides them; a handle that is cheap to clone.
///
/// A call that waits too long is answered with an approval id. Once an operator has approved, the caller repeats the
/// call and it runs once. The answer is bound to caller, tool, arguments and definition. Requests and answers survive a
/// restart.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use mgp_security::{Governance, Inbox, InboxConfig};
/// use mgp_types::service::{MemoryAudit, Principal};
/// use mgp_types::store::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let store = Arc::new(MemoryStore::new());
/// let inbox = Inbox::new(store.clone(), Arc::new(MemoryAudit::new()));
/// let governance = Governance::builder().store(store).approver(inbox.clone()).build();
/// # drop(governance);
///
/// let ann = Principal::new("local", "ann").operator();
/// for request in inbox.list(&ann).await.unwrap() {
///     println!("{}: {}", request.id, request.question);
///     inbox.approve(&ann, &request.id, Some("looks right")).await.unwrap();
/// }
/// # });
/// ```
#[derive(Clone)]
pub struct Inbox(Arc<InboxState>);

struct InboxState {
    state: State<Requests>,
    /// The approvals that also apply to later calls.
    calls: CallApprovals,
    config: InboxConfig,
    /// The current value of [`InboxConfig::wait`].
    wait: Mutex<Duration>,
    /// Locked while a request is added, decided or used, so that no answer is used twice.
    turn: tokio::sync::Mutex<()>,
    moved: Arc<watch::Sender<u64>>,
    /// `true` once calls no longer wait for a decision, because the process stops.
    waits_ended: watch::Sender<bool>,
}

/// The result of looking up a question.
pub(super) enum Lookup {
    /// An operator has decided the approval request of the question.
    Decided(Decision),
    /// The approval request of the question, about which no operator has decided yet.
    Open(Arc<ApprovalRequest>),
}

impl Inbox {
    /// Creates an inbox over a store; [`open`](Self::open) reads its content.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, audit: Arc<dyn AuditSink>) -> Self {
        Self::with_config(store, audit, InboxConfig::default())
    }

    /// Creates an inbox with other limits.
    #[must_use]
    pub fn with_config(
        store: Arc<dyn Store>,
        audit: Arc<dyn AuditSink>,
        config: InboxConfig,
    ) -> Self {
        let moved = Arc::new(watch::Sender::new(0_u64));
        let calls = CallApprovals::new(Arc::clone(&store), Arc::clone(&audit));
        let state = State::new(store, audit);
        let changes = Arc::clone(&moved);
        state.on_change(move || changes.send_modify(|count| *count = count.wrapping_add(1)));
        Self(Arc::new(InboxState {
            state,
            calls,
            wait: Mutex::new(config.wait),
            config,
            turn: tokio::sync::Mutex::default(),
            moved,
            waits_ended: watch::Sender::new(false),
        }))
    }

    /// Reads the content of the store, and follows its changes.
    ///
    /// # Errors
    /// [`StoreError`] if it cannot be read.
    ///
    /// # Cancel safety
    /// If the future is dropped, the inbox may be unread; call this method again.
    pub async fn open(&self) -> Result<(), StoreError> {
        self.0.calls.open().await?;
        self.0.state.open().await
    }

    /// Returns the approvals that also apply to later calls.
    #[must_use]
    pub fn calls(&self) -> &CallApprovals {
        &self.0.calls
    }

    /// Returns the requests of the operator's tenant that are open or were decided recently, oldest first.
    ///
    /// # Errors
    /// 1000 if `by` is not an operator; other codes if the store cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn list(&self, by: &Principal) -> Result<Vec<ApprovalRequest>, RpcError> {
        self.listed(AdminCheck::without_call(by).within_tenant()).await
    }

    /// Approves a request; the approval can be used once, within [`InboxConfig::answer_ttl`].
    ///
    /// # Errors
    /// 1000 if `by` is not an operator, or is the agent whose call is waiting; −32602 if no open request of its tenant
    /// has the id; other codes if the decision cannot be stored or recorded, in which case it is not made.
    ///
    /// # Cancel safety
    /// If the future is dropped, the decision may or may not be made.
    pub async fn approve(
        &self,
        by: &Principal,
        id: &str,
        justification: Option<&str>,
    ) -> Result<ApprovalRequest, RpcError> {
        self.approve_for(by, id, &ApprovalTerm::Once, justification).await
    }

    /// Approves a request and, as far as `term` covers them, later calls.
    ///
    /// A request about permissions can be approved until a given time.
    ///
    /// # Errors
    /// As [`approve`](Self::approve); −32602 if the term does not fit the request.
    ///
    /// # Cancel safety
    /// As [`approve`](Self::approve).
    pub async fn approve_for(
        &self,
        by: &Principal,
        id: &str,
        term: &ApprovalTerm,
        justification: Option<&str>,
    ) -> Result<ApprovalRequest, RpcError> {
        self.answer(by, id, Some(term), justification).await
    }

    /// Denies a request.
    ///
    /// # Errors
    /// As [`approve`](Self::approve).
    ///
    /// # Cancel safety
    /// As [`approve`](Self::approve).
    pub async fn deny(
        &self,
        by: &Principal,
        id: &str,
        justification: Option<&str>,
    ) -> Result<ApprovalRequest, RpcError> {
        self.answer(by, id, None, justification).await
    }

    /// Removes unused approvals of permissions that an operator is revoking; otherwise such an approval would grant the
    /// permissions again. Returns the permissions of the removed approvals.
    ///
    /// The caller of this method must have checked that `by` is an operator.
    ///
    /// An error if the removal cannot be stored or recorded; some of the approvals may have been removed.
    /// The removal cannot be stored or recorded; some approvals may be removed.
    ///
    /// # Cancel safety
    /// As [`approve`](Self::approve).
    pub async fn forget_approvals(
        &self,
        by: &Principal,
        server: &ServerId,
        permissions: &[Permission],
    ) -> Result<Vec<Permission>, RpcError> {
        let _turn = self.0.turn.lock().await;
        let revoked = Permission::canonical(permissions);
        let is_affected = |request: &ApprovalRequest| {
            request.state == RequestState::Approved
                && request.tenant == by.tenant().as_str()
                && request.server_id.as_deref() == Some(server.as_str())
                && request.permissions.iter().any(|permission| revoked.contains(permission))
        };
        let requests = self.0.state.now()?;
        let removed = requests.all().filter(|request| is_affected(request));
        let removed: Vec<_> = removed.flat_map(|request| request.permissions.clone()).collect();
        let event_of = |request: &ApprovalRequest| {
            let event = Event::approval_decided(by, &request.id, "denied")
                .server(Some(server))
                .tool(request.tool.as_deref())
                .cause("revoked");
            Some(event.build())
        };
        self.0.state.take_out(is_affected, event_of).await.map_err(Refusal::from)?;
        Ok(removed.into_iter().filter(|permission| revoked.contains(permission)).collect())
    }

    /// Closes open requests about permissions of a server after an operator has decided about these permissions in
    /// another way. The decision about a call that waits for such a request is made again.
    ///
    /// The caller of this method must have checked that `by` is an operator.
    ///
    /// # Errors
    /// An error if the change cannot be stored or recorded.
    ///
    /// # Cancel safety
    /// As [`approve`](Self::approve).
    pub async fn settle(
        &self,
        by: &Principal,
        server: &ServerId,
        decided: &[Permission],
    ) -> Result<(), RpcError> {
        let _turn = self.0.turn.lock().await;
        let (requests, now) = (self.0.state.now()?, SystemTime::now());
        let decided = Permission::canonical(decided);
        let is_settled = |request: &&Arc<ApprovalRequest>| {
            !request.permissions.is_empty()
                && request.arguments.is_none()
                && request.tenant == by.tenant().as_str()
                && request.server_id.as_deref() == Some(server.as_str())
                && request.permissions.iter().all(|permission| decided.contains(permission))
        };
        let (mut writes, mut events) = (Writes::new(), Vec::new());
        for request in requests.open(now).filter(is_settled) {
            let mut settled = ApprovalRequest::clone(request);
            settled.state = RequestState::Settled;
            settled.decided_by = Some(by.name().to_owned());
            settled.expires_at = (now + self.0.config.answer_ttl).into();
            let event = Event::approval_decided(by, &settled.id, settled.state.as_str())
                .server(Some(server))
                .tool(settled.tool.as_deref());
            events.push(event.build());
            writes.push((settled.id.clone(), Some(settled)));
        }
        if writes.is_empty() {
            return Ok(());
        }
        self.0.state.write(writes, events).await.map_err(Refusal::from)?;
        Ok(())
    }

    /// Removes the requests and answers about a deregistered server. Checks no authority: the caller of this method
    /// must have done that.
    ///
    /// # Errors
    /// An error if the removal cannot be stored or recorded; some of the requests may have been removed.
    ///
    /// # Cancel safety
    /// As [`approve`](Self::approve).
    pub async fn forget_server(&self, server: &ServerId) -> Result<(), RpcError> {
        let _turn = self.0.turn.lock().await;
        let is_affected =
            |request: &ApprovalRequest| request.server_id.as_deref() == Some(server.as_str());
        let event_of = |request: &ApprovalRequest| {
            let is_open = matches!(request.state, RequestState::Open | RequestState::Approved);
            let event = Event::approval_decided(Actor::kernel(), &request.id, "denied")
                .server(Some(server))
                .tool(request.tool.as_deref())
                .cause("deregistered");
            is_open.then(|| event.build())
        };
        Ok(self.0.state.take_out(is_affected, event_of).await.map_err(Refusal::from)?)
    }

    /// Sets [`InboxConfig::wait`] for calls that start to wait after this.
    pub fn set_wait(&self, wait: Duration) {
        *self.0.wait.lock() = wait;
    }

    fn wait(&self) -> Duration {
        *self.0.wait.lock()
    }

    /// Stops waiting for persons permanently, e.g. because the process stops: each waiting call and each later one is
    /// answered at once as undecided. The requests stay open.
    pub fn end_waits(&self) {
        self.0.waits_ended.send_replace(true);
    }

    /// Waits until [`end_waits`](Self::end_waits) is called.
    pub(super) async fn waits_ended(&self) {
        let mut ended = self.0.waits_ended.subscribe();
        // An error is impossible: the sender lives as long as the inbox.
        let _ = ended.wait_for(|ended| *ended).await;
    }

    /// Registers a hook that runs after each change of the requests. The hook must not block.
    pub fn on_change<L: Into<HookState>>(&self, hook: impl Fn() -> L + Send + Sync + 'static) {
        self.0.state.on_change(hook);
    }

    async fn listed(&self, caller: AdminCheck<'_>) -> Result<Vec<ApprovalRequest>, RpcError> {
        self.admit(caller, Need::Read, "approvals").await?;
        let (requests, now) = (self.0.state.now()?, SystemTime::now());
        let tenant = caller.principal().tenant().as_str();
        let known =
            requests.all().filter(|request| request.tenant == tenant && !request.is_over(now));
        let mut known: Vec<_> = known.map(|request| ApprovalRequest::clone(request)).collect();
        known.sort_by(|one, other| one.asked_at.as_str().cmp(other.asked_at.as_str()));
        Ok(known)
    }

    async fn answer(
        &self,
        by: &Principal,
        id: &str,
        approved: Option<&ApprovalTerm>,
        justification: Option<&str>,
    ) -> Result<ApprovalRequest, RpcError> {
        let caller = AdminCheck::without_call(by).within_tenant();
        self.admit(caller, Need::Write, "approvals.decide").await?;
        let _turn = self.0.turn.lock().await;
        let now = SystemTime::now();
        let known = self.0.state.now()?;
        let tenant = by.tenant().as_str();
        // An operator of another tenant gets the same error as for an unknown id.
        let open =
            known.get(id).filter(|request| request.tenant == tenant && !request.is_over(now));
        let Some(open) = open.filter(|request| request.state == RequestState::Open) else {
            return Err(RpcError::invalid_params(match open {
                Some(decided) => format!("`{}` is {} already", decided.id, decided.state_word()),
                None => "no open request has this id; see `mgp approvals ls`".to_owned(),
            }));
        };
        if by.as_agent().is_some() && open.is_of(by) {
            let refused = "an agent cannot decide its own request; another operator must decide it";
            return Err(RpcError::new(ErrorCode::PERMISSION_DENIED, refused));
        }
        let mut decided = ApprovalRequest::clone(open);
        let state = if approved.is_some() { RequestState::Approved } else { RequestState::Denied };
        decided.state = state;
        match approved {
            None | Some(ApprovalTerm::Once) => {}
            Some(term) if open.arguments.is_some() => {
                self.0.calls.keep(open, term, Actor::of(by), justification).await?;
            }
            Some(ApprovalTerm::Tool { until }) => decided.holds_until = Some(until.clone()),
            Some(ApprovalTerm::Like { .. }) => {
                let message =
                    "it asks for permissions; only a call can be approved with all calls like it";
                return Err(RpcError::invalid_params(message));
            }
        }
        decided.decided_by = Some(by.name().to_owned());
        decided.justification = justification.map(str::to_owned);
        decided.expires_at = (now + self.0.config.answer_ttl).into();
        let event = Event::approval_decided(by, id, state.as_str())
            .server(decided.server_id.as_deref().map(ServerId::from).as_ref())
            .tool(decided.tool.as_deref())
            .justification(justification);
        let writes = vec![(decided.id.clone(), Some(decided.clone()))];
        self.0.state.write(writes, vec![event.build()]).await.map_err(Refusal::from)?;
        Ok(decided)
    }

    /// Returns an error for principals that may not decide, and records their attempt.
    async fn admit(
        &self,
        caller: AdminCheck<'_>,
        need: Need<'_>,
        method: &'static str,
    ) -> Result<(), RpcError> {
        match caller.check(need, method, Whom::All) {
            Ok(()) => Ok(()),
            Err(refusal) => {
                Err(caller.record_refusal(&**self.0.state.audit(), None, method, refusal).await)
            }
        }
    }

    /// Looks up the answer to a question and marks it as used; adds an open request if there is no answer.
    pub(super) async fn find(&self, question: &Question) -> Result<Lookup, RpcError> {
        let _turn = self.0.turn.lock().await;
        let now = SystemTime::now();
        let requests = self.0.state.now()?;
        let binding = question.binding.to_string();
        let Some(known) = requests.bound_to(&binding, now) else {
            return self.put(question, &requests, now).await.map(Lookup::Open);
        };
        match known.state {
            RequestState::Open => Ok(Lookup::Open(Arc::clone(known))),
            RequestState::Denied => Ok(Lookup::Decided(known.decision(GrantDecision::Denied))),
            _ => {
                let mut used = ApprovalRequest::clone(known);
                used.state = RequestState::Used;
                let decision = used.decision(GrantDecision::Approved);
                // Mark the answer as used before the call runs. If the process crashes in between, the operator is
                // asked again when the call is repeated.
                let writes = vec![(used.id.clone(), Some(used))];
                self.0.state.write(writes, Vec::new()).await.map_err(Refusal::from)?;
                Ok(Lookup::Decided(decision))
            }
        }
    }

    /// Adds a request, and removes expired ones.
    async fn put(
        &self,
        question: &Question,
        requests: &Requests,
        now: SystemTime,
    ) -> Result<Arc<ApprovalRequest>, RpcError> {
        let config = &self.0.config;
        let own = requests.open(now).filter(|request| request.is_of(&question.principal)).count();
        if own >= config.max_open_per_caller || requests.open(now).count() >= config.max_open {
            return Err(RpcError::new(
                ErrorCode::RESOURCE_EXHAUSTED,
                "too many open approval requests; an operator decides them, see `mgp approvals ls`",
            ));
        }
        let id: String = random_name()?.chars().take(10).collect();
        let request = ApprovalRequest::of(question, id, now, now + config.request_ttl);
        let event =
            Event::approval_requested(&question.principal, &request.id, Some(&request.expires_at))
                .server(question.server.as_ref())
                .tool(request.tool.as_deref());
        let over = requests.all().filter(|request| request.is_over(now));
        let mut writes: Writes<ApprovalRequest> =
            over.map(|request| (request.id.clone(), None)).collect();
        writes.push((request.id.clone(), Some(request.clone())));
        self.0.state.write(writes, vec![event.build()]).await.map_err(Refusal::from)?;
        Ok(Arc::new(request))
    }

    /// Waits until an operator decides an open request. If the request ends without a decision, this never returns.
    pub(super) async fn decided(
        &self,
        question: &Question,
        request: &ApprovalRequest,
    ) -> Result<Decision, RpcError> {
        let mut moves = self.0.moved.subscribe();
        loop {
            moves.borrow_and_update();
            let now = self.0.state.now()?.get(&request.id).cloned();
            match now.as_ref().map(|now| now.state) {
                Some(RequestState::Approved | RequestState::Denied) => {
                    if let Lookup::Decided(decision) = self.find(question).await? {
                        return Ok(decision);
                    }
                }
                // The operator decided about the permissions themselves, so the gate must decide about the call again.
                Some(RequestState::Settled) if request.arguments.is_none() => {
                    return Ok(request.decision(GrantDecision::Deferred));
                }
                _ => {}
            }
            if moves.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Closes an open request whose question was answered by another approver.
    pub(super) async fn close(&self, id: &str, decision: &Decision) -> Result<(), RpcError> {
        let _turn = self.0.turn.lock().await;
        let requests = self.0.state.now()?;
        let Some(open) = requests.get(id).filter(|known| known.state == RequestState::Open) else {
            return Ok(());
        };
        let mut closed = ApprovalRequest::clone(open);
        closed.state = match decision.answer {
            GrantDecision::Approved => RequestState::Used,
            _ => RequestState::Settled,
        };
        closed.decided_by = Some(decision.by.clone());
        closed.justification = decision.reason();
        closed.expires_at = (SystemTime::now() + self.0.config.answer_ttl).into();
        let event = Event::approval_decided(decision.actor(), id, closed.state_word())
            .server(closed.server_id.as_deref().map(ServerId::from).as_ref())
            .tool(closed.tool.as_deref())
            .justification(closed.justification.as_deref());
        let writes = vec![(closed.id.clone(), Some(closed.clone()))];
        self.0.state.write(writes, vec![event.build()]).await.map_err(Refusal::from)?;
        Ok(())
    }

    pub(super) async fn ask(&self, question: Question) -> Result<Decision, RpcError> {
        let mut moves = self.0.moved.subscribe();
        let mut late = pin!(sleep(self.wait()));
        let mut asked: Option<Arc<ApprovalRequest>> = None;
        loop {
            moves.borrow_and_update();
            if let Some(asked) = &asked
                && let Some(now) = self.0.state.now()?.get(&asked.id)
                && now.state == RequestState::Settled
            {
                // The request was decided in the meantime, so the gate must decide again with that decision.
                return Ok(now.decision(GrantDecision::Deferred));
            }
            let waiting = match self.find(&question).await? {
                Lookup::Decided(decision) => return Ok(decision),
                Lookup::Open(request) => request,
            };
            asked = Some(Arc::clone(&waiting));
            tokio::select! {
                moved = moves.changed() => if moved.is_err() {
                    return Ok(waiting.decision(GrantDecision::Deferred));
                },
                () = &mut late => return Ok(waiting.decision(GrantDecision::Deferred)),
                () = self.waits_ended() => {
                    let closed = waiting.decision(GrantDecision::Deferred);
                    return Ok(closed.with("cause", &LeftOpen::Closed));
                }
            }
        }
    }
}

#[async_trait]
impl Approver for Inbox {
    async fn decide(&self, _: &Context, question: Question) -> Result<Decision, RpcError> {
        self.ask(question).await
    }

    /// Returns [`InboxConfig::wait`] plus a margin in which the waiting call can still get the approval id.
    fn timeout(&self) -> Duration {
        self.wait() + Duration::from_secs(4)
    }
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("config", &self.0.config).finish_non_exhaustive()
    }
}
