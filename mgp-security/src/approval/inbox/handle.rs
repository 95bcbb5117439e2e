//! The handle of the inbox, for calls that ask and operators who decide.

mod answer;
mod ask;
mod beside;
mod review;
mod withdrawal;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mgp_types::mgp::{Actor, AuditEvent, GrantDecision};
use mgp_types::service::{AuditSink, Principal, ServerId};
use mgp_types::store::{Store, StoreError};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, Payload, RpcError, Timestamp, canonical, random_name};
use tokio::sync::watch;

use self::answer::AnswerContext;
use self::beside::{changed_by_others, check_answer, not_open};
use self::review::review_about;
use super::request::{ApprovalRequest, RequestState, Requests};
use crate::access::{AdminCheck, Need};
use crate::approval::{ApprovalTerm, CallApproval, CallApprovals, Decision, Question};
use crate::audit::Event;
use crate::entries::MAX_ATTEMPTS;
use crate::error::Refusal;
use crate::hooks::HookState;
use crate::state::{State, Writes};

/// The maximum number of stored requests that are closed, i.e. that no later call can use. Without this limit, a
/// program that answers every request, e.g. a host that allows each call, would fill the store with all requests of the
/// last hour.
const MAX_CLOSED: usize = 256;

/// The limits of an [`Inbox`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InboxConfig {
    /// The time that a call waits for a decision before it receives the approval id instead. Default: 50 s, within the
    /// minute that most hosts wait.
    pub wait: Duration,
    /// The time that a request waits for an operator before it expires. Default: 24 h.
    pub request_ttl: Duration,
    /// The time within which an answer can be used. Default: 1 h.
    pub answer_ttl: Duration,
    /// The maximum number of open requests per caller, not counting reviews of permissions; further requests are
    /// refused. Default: 16.
    pub max_open_per_caller: usize,
    /// The maximum number of open requests of all callers of a tenant; further requests are refused. Default: 256.
    pub max_open: usize,
}

impl Default for InboxConfig {
    fn default() -> Self {
        Self {
            wait: Duration::from_secs(50),
            request_ttl: Duration::from_hours(24),
            answer_ttl: Duration::from_hours(1),
            max_open_per_caller: 16,
            max_open: 256,
        }
    }
}

/// The inbox of questions, which stores them as requests until an operator decides them; a handle that is cheap to
/// clone.
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
pub struct Inbox(Arc<InboxState>, AnswerContext);

struct InboxState {
    state: State<Requests>,
    /// The approvals that also apply to later calls.
    calls: CallApprovals,
    config: InboxConfig,
    /// The current value of [`InboxConfig::wait`], which [`set_wait`](Inbox::set_wait) can change.
    wait: Mutex<Duration>,
    /// Locked while a request is added, decided or used, so that no answer is used twice. The lock does not exclude
    /// other processes with the same store: if one of them changes a request first, storing our change fails.
    turn: tokio::sync::Mutex<()>,
    moved: Arc<watch::Sender<u64>>,
    /// `true` once calls no longer wait for a decision, because the process stops.
    waits_ended: watch::Sender<bool>,
}

/// The result of looking up a question.
pub(super) enum Lookup {
    /// The decision that an operator made about the approval request of the question.
    Decided(Decision),
    /// The open approval request of the question: no operator has decided about it yet.
    Open(Arc<ApprovalRequest>),
}

impl Inbox {
    /// Creates an inbox over a store; [`open`](Self::open) reads its content.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, audit: Arc<dyn AuditSink>) -> Self {
        Self::with_config(store, audit, InboxConfig::default())
    }

    /// Creates an inbox with the given limits.
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
        let state = InboxState {
            state,
            calls,
            wait: Mutex::new(config.wait),
            config,
            turn: tokio::sync::Mutex::default(),
            moved,
            waits_ended: watch::Sender::new(false),
        };
        Self(Arc::new(state), AnswerContext::default())
    }

    /// Reads the content of the store, and follows its changes.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    ///
    /// # Cancel safety
    /// If the future is dropped, the store might not have been read; call this method again.
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
    /// Code 1000 (permission denied) if `by` is not an operator; other codes if the store cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn list(&self, by: &Principal) -> Result<Vec<Arc<ApprovalRequest>>, RpcError> {
        self.listed(AdminCheck::without_call(by).within_tenant()).await
    }

    /// Returns the request about exactly this call of a principal, if the request has not expired. If several requests
    /// match, prefers a denied request, then an approved request that is not used yet, then an open request. Checks no
    /// rights.
    #[must_use]
    pub fn about_call(
        &self,
        principal: &Principal,
        server: &ServerId,
        tool: &str,
        arguments: &Payload,
    ) -> Option<ApprovalRequest> {
        let arguments = canonical(arguments.as_str()).ok()?;
        let (requests, now) = (self.0.state.now().ok()?, SystemTime::now());
        let is_about = |request: &ApprovalRequest| {
            request.is_of(principal)
                && request.server_id.as_deref() == Some(server.as_str())
                && request.tool.as_deref() == Some(tool)
                && request.arguments.as_ref() == Some(&arguments)
        };
        let found = requests.in_force(now, is_about)?;
        Some(ApprovalRequest::clone(found))
    }

    /// Approves an open request, or a call that was denied before; the approval can be used once, within
    /// [`InboxConfig::answer_ttl`].
    ///
    /// # Errors
    /// Code 1000 (permission denied) if `by` is not an operator, or is the agent whose call is waiting; code −32602
    /// (invalid params) if no open request of its tenant has the id, or if the justification has more than 1,024 bytes;
    /// other codes if the decision cannot be stored or recorded, in which case it is not made.
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
    /// For a request about permissions, [`ApprovalTerm::Tool`] sets the time at which the approval expires.
    ///
    /// # Errors
    /// The same errors as [`approve`](Self::approve). Also code −32602 (invalid params) if the term does not fit the
    /// request, or ends in the past.
    ///
    /// # Cancel safety
    /// The same as for [`approve`](Self::approve).
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
    /// The same errors as [`approve`](Self::approve).
    ///
    /// # Cancel safety
    /// The same as for [`approve`](Self::approve).
    pub async fn deny(
        &self,
        by: &Principal,
        id: &str,
        justification: Option<&str>,
    ) -> Result<ApprovalRequest, RpcError> {
        self.answer(by, id, None, justification).await
    }

    /// Sets [`InboxConfig::wait`] for the calls that begin to wait from now on.
    pub fn set_wait(&self, wait: Duration) {
        *self.0.wait.lock() = wait;
    }

    fn wait(&self) -> Duration {
        *self.0.wait.lock()
    }

    /// Stops waiting for persons permanently, e.g. because the process stops: each waiting call and each later one is
    /// answered immediately as undecided. The requests stay open.
    pub fn end_waits(&self) {
        self.0.waits_ended.send_replace(true);
    }

    /// Waits until [`end_waits`](Self::end_waits) is called.
    pub(super) async fn waits_ended(&self) {
        let mut ended = self.0.waits_ended.subscribe();
        // Ignore the error, which cannot occur: the sender lives as long as the inbox.
        let _ = ended.wait_for(|ended| *ended).await;
    }

    /// Registers a hook that runs after each change of the requests. The hook must not block.
    pub fn on_change<L: Into<HookState>>(&self, hook: impl Fn() -> L + Send + Sync + 'static) {
        self.0.state.on_change(hook);
    }

    async fn listed(&self, caller: AdminCheck<'_>) -> Result<Vec<Arc<ApprovalRequest>>, RpcError> {
        self.admit(caller, Need::Read, "approvals").await?;
        let (requests, now) = (self.0.state.now()?, SystemTime::now());
        let tenant = caller.principal().tenant().as_str();
        let known =
            requests.all().filter(|request| request.tenant == tenant && !request.is_over(now));
        let mut known: Vec<_> = known.cloned().collect();
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
        check_answer(approved, justification)?;
        let _turn = self.0.turn.lock().await;
        let (mut kept, mut answered) = (None, Ok(None));
        for _ in 0..MAX_ATTEMPTS {
            answered = self.try_answer(by, id, approved, justification, &mut kept).await;
            if !matches!(answered, Ok(None)) {
                break;
            }
        }
        if !matches!(answered, Ok(Some(_)))
            && let Some(kept) = kept
        {
            // The operator gets an error, so no part of the answer may stay in force.
            self.0.calls.remove(by, &[kept]).await?;
        }
        answered?.ok_or_else(changed_by_others)
    }

    /// Answers a request. Returns `None` if another process changed the request meanwhile, so that it must be read
    /// again. An approval of later calls is stored before the answer, and is returned in `kept`.
    async fn try_answer(
        &self,
        by: &Principal,
        id: &str,
        approved: Option<&ApprovalTerm>,
        justification: Option<&str>,
        kept: &mut Option<CallApproval>,
    ) -> Result<Option<ApprovalRequest>, RpcError> {
        let now = SystemTime::now();
        let known = self.0.state.now()?;
        let tenant = by.tenant().as_str();
        // Answer an operator of another tenant as for an unknown id, so that it does not learn that the request exists.
        let open =
            known.get(id).filter(|request| request.tenant == tenant && !request.is_over(now));
        let can_answer = |request: &&Arc<ApprovalRequest>| match request.state {
            RequestState::Open => true,
            // An operator can take back the denial of a call, also a denial that was given in a form (`Settled`). The
            // call then runs once.
            RequestState::Denied | RequestState::Settled => {
                approved.is_some() && request.arguments.is_some()
            }
            _ => false,
        };
        let Some(open) = open.filter(|open| self.1.is_expected(open) && can_answer(open)) else {
            return Err(not_open(open, id));
        };
        if by.as_agent().is_some() && open.is_of(by) {
            let refused = "an agent cannot decide its own request; another operator must decide it";
            return Err(RpcError::new(ErrorCode::PERMISSION_DENIED, refused));
        }
        let mut decided = ApprovalRequest::clone(open);
        let state = if approved.is_some() { RequestState::Approved } else { RequestState::Denied };
        match approved {
            None | Some(ApprovalTerm::Once) => {}
            Some(_) if kept.is_some() => {}
            Some(term) if open.arguments.is_some() => {
                *kept = self.0.calls.keep(open, term, Actor::of(by), justification).await?;
            }
            Some(ApprovalTerm::Tool { until }) => decided.holds_until = Some(until.clone()),
            Some(ApprovalTerm::Like { .. }) => {
                let message =
                    "it asks for permissions; only a call can be approved with all calls like it";
                return Err(RpcError::invalid_params(message));
            }
        }
        let until = kept.as_ref().map_or(&decided.holds_until, |kept| &kept.expires_at).clone();
        // An approval of later calls also answers the other open requests that it covers, so decide these requests too.
        let is_covered = |other: &&Arc<ApprovalRequest>| {
            other.id != decided.id && kept.as_ref().is_some_and(|kept| kept.covers_request(other))
        };
        let others: Vec<_> = known.open(now).filter(is_covered).cloned().collect();
        let mut all = vec![decided];
        all.extend(others.iter().cloned().map(Arc::unwrap_or_clone));
        let mut before = vec![Arc::clone(open)];
        before.extend(others);
        let is_stored =
            self.store_decision(by, before, &mut all, state, until.as_ref(), justification).await?;
        Ok(is_stored.then(|| all.swap_remove(0)))
    }

    /// Stores and records one decision about several requests, which were read as `before`. If the decision belongs to
    /// an approval of later calls or of permissions, it can be used only until the end of that approval, `until`.
    /// Returns `false`, as [`replace`](Self::replace) does, if another process has changed one of the requests.
    async fn store_decision(
        &self,
        by: &Principal,
        before: Vec<Arc<ApprovalRequest>>,
        requests: &mut [ApprovalRequest],
        state: RequestState,
        until: Option<&Timestamp>,
        justification: Option<&str>,
    ) -> Result<bool, RpcError> {
        let now = SystemTime::now();
        // Treat an unreadable end as past, as for an approval of later calls.
        let until = until.map(|until| until.to_system_time().unwrap_or(now));
        let end = now + self.0.config.answer_ttl;
        let end = until.map_or(end, |until| until.min(end));
        let (mut writes, mut events) = (Vec::new(), Vec::new());
        for (before, request) in before.into_iter().zip(requests) {
            request.state = state;
            request.decided_by = Some(by.name().to_owned());
            request.via = self.1.place;
            request.justification = justification.map(str::to_owned);
            request.expires_at = end.into();
            let event = request.decided_event(by, state.as_str()).justification(justification);
            events.push(event.build());
            writes.push((before, request.clone()));
        }
        self.replace(writes, events).await
    }

    /// Replaces the requests on which a decision was based. Returns `false`, and stores nothing, if another process has
    /// changed one of these requests since the decision.
    async fn replace(
        &self,
        writes: Vec<(Arc<ApprovalRequest>, ApprovalRequest)>,
        events: Vec<AuditEvent>,
    ) -> Result<bool, RpcError> {
        let writes = writes.into_iter().map(|(before, after)| (after.id.clone(), before, after));
        Ok(self.0.state.replace(writes.collect(), events).await.map_err(Refusal::from)?)
    }

    /// Checks that the principal is allowed to list or decide requests. If not, returns an error and records the attempt.
    async fn admit(
        &self,
        caller: AdminCheck<'_>,
        need: Need<'_>,
        method: &'static str,
    ) -> Result<(), RpcError> {
        caller.admit(&**self.0.state.audit(), None, need, method).await
    }

    /// Looks up a question. Returns the operator's answer, an approval of later calls that covers the question, or the
    /// open request about it. Marks an approval that was the operator's answer as used. If nothing is found, adds an
    /// open request.
    pub(super) async fn find(&self, question: &Question) -> Result<Lookup, RpcError> {
        let _turn = self.0.turn.lock().await;
        for _ in 0..MAX_ATTEMPTS {
            if let Some(found) = self.look_up(question).await? {
                return Ok(found);
            }
        }
        Err(changed_by_others())
    }

    /// Looks up a question as [`find`](Self::find) does. Returns `None` if another process changed its request
    /// meanwhile, e.g. used the answer, so that the request must be read again.
    async fn look_up(&self, question: &Question) -> Result<Option<Lookup>, RpcError> {
        let now = SystemTime::now();
        let requests = self.0.state.now()?;
        let Some(known) = requests.about(question, now) else {
            if let Some(review) = review_about(question, &requests, now) {
                return Ok(self.opened(review, question, now).await?.map(Lookup::Open));
            }
            // Look for an approval of later calls, too: an operator may have given it after the gate decided that this
            // call needs an answer, e.g. as the answer to an equal call.
            let asked = ApprovalRequest::of(question, String::new(), now, now);
            if let Some(kept) = self.0.calls.covering(&asked, now) {
                let decision = Decision::new(GrantDecision::Approved, kept.approved_by.as_str());
                return Ok(Some(Lookup::Decided(decision)));
            }
            return Ok(Some(Lookup::Open(self.put(question, &requests, now).await?)));
        };
        match known.state {
            RequestState::Open => Ok(self.narrowed(known, question).await?.map(Lookup::Open)),
            RequestState::Denied => {
                Ok(Some(Lookup::Decided(known.decision(GrantDecision::Denied))))
            }
            _ => {
                let mut used = ApprovalRequest::clone(known);
                used.state = RequestState::Used;
                let decision = used.decision(GrantDecision::Approved);
                // Mark the answer as used before the call runs. If the process crashes between these two steps, the
                // operator is asked again when the call is repeated.
                let is_used = self.replace(vec![(Arc::clone(known), used)], Vec::new()).await?;
                Ok(is_used.then_some(Lookup::Decided(decision)))
            }
        }
    }

    /// Removes from an open request the permissions for which the question no longer asks; returns the request, or
    /// `None` if another process changed it meanwhile.
    async fn narrowed(
        &self,
        open: &Arc<ApprovalRequest>,
        question: &Question,
    ) -> Result<Option<Arc<ApprovalRequest>>, RpcError> {
        let needed = question.about.permissions();
        let Some(fewer) = open.only(|permission| needed.contains(permission)) else {
            return Ok(Some(Arc::clone(open)));
        };
        let is_narrowed = self.replace(vec![(Arc::clone(open), fewer.clone())], Vec::new()).await?;
        Ok(is_narrowed.then(|| Arc::new(fewer)))
    }

    /// Adds a request, and removes other requests: expired requests, open requests that asked about the same call with
    /// other permissions, and the oldest closed requests if there are too many.
    async fn put(
        &self,
        question: &Question,
        requests: &Requests,
        now: SystemTime,
    ) -> Result<Arc<ApprovalRequest>, RpcError> {
        let config = &self.0.config;
        let (by, tenant) = (&question.principal, question.principal.tenant().as_str());
        let is_own = |request: &&Arc<ApprovalRequest>| request.is_of(by) && !request.is_review;
        let own = requests.open(now).filter(is_own).count();
        let of_tenant = requests.open(now).filter(|request| request.tenant == tenant).count();
        if own >= config.max_open_per_caller || of_tenant >= config.max_open {
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
                .tool(request.tool.as_deref())
                .trace(question.trace.as_deref())
                .rule(question.rule.as_ref());
        let is_void = |known: &&Arc<ApprovalRequest>| {
            known.is_over(now) || known.state == RequestState::Open && known.is_about(question)
        };
        let void = requests.all().filter(is_void).chain(requests.closed_beyond(MAX_CLOSED));
        let mut writes: Writes<ApprovalRequest> =
            void.map(|request| (request.id.clone(), None)).collect();
        writes.push((request.id.clone(), Some(request.clone())));
        self.0.state.write(writes, vec![event.build()]).await.map_err(Refusal::from)?;
        Ok(Arc::new(request))
    }
}

mgp_types::opaque_debug!(Inbox);
