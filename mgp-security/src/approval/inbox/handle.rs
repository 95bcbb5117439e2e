//! The inbox: it is asked like anybody, and answered by operators.
//!
//! Applies to: both.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mgp_types::mgp::{Actor, GrantDecision, Permission};
use mgp_types::service::{AuditSink, BoxFuture, Context, Principal, ServerId};
use mgp_types::store::{Store, StoreError};
use mgp_types::{ErrorCode, RpcError, unguessable};
use tokio::sync::watch;
use tokio::time::sleep;

use super::book::Book;
use super::request::{ApprovalRequest, RequestState};
use crate::access::{About as Whom, AdminCheck, Need};
use crate::approval::{Approver, Decision, Question};
use crate::audit::Event;
use crate::error::Refusal;
use crate::hooks::Listening;
use crate::state::{State, Writes};

/// Bounds of an [`Inbox`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InboxConfig {
    /// How long a call waits for its answer before it is told to come again. 25 s.
    pub wait: Duration,
    /// How long a question waits for an operator. 24 h.
    pub open_for: Duration,
    /// How long an answer can be used. 1 h.
    pub good_for: Duration,
    /// How many questions of one caller may be open; further ones are refused. 16.
    pub open_each: usize,
    /// How many questions may be open in all; further ones are refused. 256.
    pub open_all: usize,
}

impl Default for InboxConfig {
    fn default() -> Self {
        Self {
            wait: Duration::from_secs(25),
            open_for: Duration::from_hours(24),
            good_for: Duration::from_hours(1),
            open_each: 16,
            open_all: 256,
        }
    }
}

/// Keeps questions until an operator answers them; a cheap handle.
///
/// Whoever waits is told an id after a while, and makes the same call again once it was approved: then it runs, once.
/// The answer is bound to caller, tool, arguments and definition. Questions and answers survive the process.
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
pub struct Inbox(Arc<Inner>);

struct Inner {
    state: State<Book>,
    config: InboxConfig,
    /// Held while a question is asked, answered or used: an answer is used once.
    turn: tokio::sync::Mutex<()>,
    moved: Arc<watch::Sender<u64>>,
}

/// What a question finds.
enum Found {
    /// It was decided.
    Decided(Decision),
    /// It waits.
    Waits(Arc<ApprovalRequest>),
}

impl Inbox {
    /// An inbox over a store; what that holds is read by [`open`](Self::open).
    #[must_use]
    pub fn new(store: Arc<dyn Store>, audit: Arc<dyn AuditSink>) -> Self {
        Self::configured(store, audit, InboxConfig::default())
    }

    /// The same with other bounds.
    #[must_use]
    pub fn configured(
        store: Arc<dyn Store>,
        audit: Arc<dyn AuditSink>,
        config: InboxConfig,
    ) -> Self {
        let moved = Arc::new(watch::Sender::new(0_u64));
        let state = State::new(store, audit);
        let told = Arc::clone(&moved);
        state.on_change(move || told.send_modify(|count| *count = count.wrapping_add(1)));
        Self(Arc::new(Inner { state, config, turn: tokio::sync::Mutex::default(), moved }))
    }

    /// Reads what the store holds and follows it from then on.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it unread.
    pub async fn open(&self) -> Result<(), StoreError> {
        self.0.state.open().await
    }

    /// The questions that are open, and those that were answered a short while ago; the oldest first.
    ///
    /// # Errors
    /// 1000 when `by` is no operator; else they cannot be read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn list(&self, by: &Principal) -> Result<Vec<ApprovalRequest>, RpcError> {
        self.listed(AdminCheck::without_call(by)).await
    }

    /// Approves what is asked under an id; it may be done once, within [`InboxConfig::good_for`].
    ///
    /// # Errors
    /// 1000 when `by` is no operator, or is the agent that waits; −32602 when nothing waits under the id; else it cannot
    /// be kept or recorded, and nothing was decided.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was decided.
    pub async fn approve(
        &self,
        by: &Principal,
        id: &str,
        justification: Option<&str>,
    ) -> Result<ApprovalRequest, RpcError> {
        self.answer(AdminCheck::without_call(by), id, RequestState::Approved, justification).await
    }

    /// Denies what is asked under an id.
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
        self.answer(AdminCheck::without_call(by), id, RequestState::Denied, justification).await
    }

    /// Forgets what was approved and not used yet of permissions that an operator takes back: it would grant them again.
    ///
    /// Whoever takes them back was asked who they are. Answers which they were.
    ///
    /// # Errors
    /// It cannot be kept or recorded; some of it may be forgotten.
    ///
    /// # Cancel safety
    /// As [`approve`](Self::approve).
    pub async fn taken_back(
        &self,
        by: &Principal,
        server: &ServerId,
        permissions: &[Permission],
    ) -> Result<Vec<Permission>, RpcError> {
        let _turn = self.0.turn.lock().await;
        let meant = Permission::canonical(permissions);
        let is_meant = |request: &ApprovalRequest| {
            request.state == RequestState::Approved
                && request.tenant == by.tenant().as_str()
                && request.server_id.as_deref() == Some(server.as_str())
                && request.permissions.iter().any(|permission| meant.contains(permission))
        };
        let book = self.0.state.now()?;
        let gone = book.all().filter(|request| is_meant(request));
        let gone: Vec<_> = gone.flat_map(|request| request.permissions.clone()).collect();
        let told = |request: &ApprovalRequest| {
            let event = Event::approval_decided(by, &request.id, "denied")
                .server(Some(server))
                .tool(request.tool.as_deref())
                .cause("revoked");
            Some(event.build())
        };
        self.0.state.take_out(is_meant, told).await.map_err(Refusal::from)?;
        Ok(gone.into_iter().filter(|permission| meant.contains(permission)).collect())
    }

    /// Forgets the questions and answers about a server that is registered no longer; whoever removes it was asked who
    /// they are.
    ///
    /// # Errors
    /// It cannot be kept or recorded; some of it may be forgotten.
    ///
    /// # Cancel safety
    /// As [`approve`](Self::approve).
    pub async fn deregistered(&self, server: &ServerId) -> Result<(), RpcError> {
        let _turn = self.0.turn.lock().await;
        let is_meant =
            |request: &ApprovalRequest| request.server_id.as_deref() == Some(server.as_str());
        let told = |request: &ApprovalRequest| {
            let is_open = matches!(request.state, RequestState::Open | RequestState::Approved);
            let event = Event::approval_decided(Actor::kernel(), &request.id, "denied")
                .server(Some(server))
                .tool(request.tool.as_deref())
                .cause("deregistered");
            is_open.then(|| event.build())
        };
        Ok(self.0.state.take_out(is_meant, told).await.map_err(Refusal::from)?)
    }

    /// Runs after each change of what waits; it must not wait.
    pub fn on_change<L: Into<Listening>>(&self, hook: impl Fn() -> L + Send + Sync + 'static) {
        self.0.state.on_change(hook);
    }

    async fn listed(&self, asker: AdminCheck<'_>) -> Result<Vec<ApprovalRequest>, RpcError> {
        self.admit(asker, Need::Read, "approvals").await?;
        let (book, now) = (self.0.state.now()?, SystemTime::now());
        let known = book.all().filter(|request| !request.is_over(now));
        let mut known: Vec<_> = known.map(|request| ApprovalRequest::clone(request)).collect();
        known.sort_by(|one, other| one.asked_at.as_str().cmp(other.asked_at.as_str()));
        Ok(known)
    }

    async fn answer(
        &self,
        asker: AdminCheck<'_>,
        id: &str,
        state: RequestState,
        justification: Option<&str>,
    ) -> Result<ApprovalRequest, RpcError> {
        self.admit(asker, Need::Write, "approvals.decide").await?;
        let _turn = self.0.turn.lock().await;
        let now = SystemTime::now();
        let known = self.0.state.now()?;
        let open = known.get(id).filter(|request| !request.is_over(now));
        let Some(open) = open.filter(|request| request.state == RequestState::Open) else {
            return Err(RpcError::invalid_params(match open {
                Some(decided) => format!("`{}` is {} already", decided.id, decided.state.as_str()),
                None => "nothing waits under this id; see `mgp approvals ls`".to_owned(),
            }));
        };
        let by = asker.principal();
        if by.as_agent().is_some() && open.is_of(by) {
            let refused = "whoever waits does not decide; another operator does";
            return Err(RpcError::new(ErrorCode::PERMISSION_DENIED, refused));
        }
        let mut decided = ApprovalRequest::clone(open);
        decided.state = state;
        decided.decided_by = Some(by.subject().as_str().to_owned());
        decided.justification = justification.map(str::to_owned);
        decided.expires_at = (now + self.0.config.good_for).into();
        let event = Event::approval_decided(by, id, state.as_str())
            .server(decided.server_id.as_deref().map(ServerId::from).as_ref())
            .tool(decided.tool.as_deref())
            .justification(justification);
        let writes = vec![(decided.id.clone(), Some(decided.clone()))];
        self.0.state.write(writes, vec![event.build()]).await.map_err(Refusal::from)?;
        Ok(decided)
    }

    /// Refuses those who may not decide, and records that they tried.
    async fn admit(
        &self,
        asker: AdminCheck<'_>,
        need: Need<'_>,
        method: &'static str,
    ) -> Result<(), RpcError> {
        match asker.check(need, method, Whom::All) {
            Ok(()) => Ok(()),
            Err(refusal) => {
                Err(asker.record_refusal(&**self.0.state.audit(), None, method, refusal).await)
            }
        }
    }

    /// Uses the answer of a question, or has it wait.
    async fn find(&self, question: &Question) -> Result<Found, RpcError> {
        let _turn = self.0.turn.lock().await;
        let now = SystemTime::now();
        let book = self.0.state.now()?;
        let binding = question.binding.to_string();
        let Some(known) = book.bound_to(&binding, now) else {
            return self.put(question, &book, now).await.map(Found::Waits);
        };
        match known.state {
            RequestState::Open => Ok(Found::Waits(Arc::clone(known))),
            RequestState::Denied => Ok(Found::Decided(known.decision(GrantDecision::Denied))),
            _ => {
                let mut used = ApprovalRequest::clone(known);
                used.state = RequestState::Used;
                let decision = used.decision(GrantDecision::Approved);
                // Used before it is told: whoever is stopped in between asks again.
                let writes = vec![(used.id.clone(), Some(used))];
                self.0.state.write(writes, Vec::new()).await.map_err(Refusal::from)?;
                Ok(Found::Decided(decision))
            }
        }
    }

    /// Puts a question in, and takes out what is over.
    async fn put(
        &self,
        question: &Question,
        book: &Book,
        now: SystemTime,
    ) -> Result<Arc<ApprovalRequest>, RpcError> {
        let config = &self.0.config;
        let own = book.open(now).filter(|request| request.is_of(&question.principal)).count();
        if own >= config.open_each || book.open(now).count() >= config.open_all {
            return Err(RpcError::new(
                ErrorCode::RESOURCE_EXHAUSTED,
                "too many approvals wait; an operator decides them with `mgp approvals ls`",
            ));
        }
        let id: String = unguessable()?.chars().take(10).collect();
        let request = ApprovalRequest::of(question, id, now, now + config.open_for);
        let event =
            Event::approval_requested(&question.principal, &request.id, Some(&request.expires_at))
                .server(question.server.as_ref())
                .tool(request.tool.as_deref());
        let over = book.all().filter(|request| request.is_over(now));
        let mut writes: Writes<ApprovalRequest> =
            over.map(|request| (request.id.clone(), None)).collect();
        writes.push((request.id.clone(), Some(request.clone())));
        self.0.state.write(writes, vec![event.build()]).await.map_err(Refusal::from)?;
        Ok(Arc::new(request))
    }

    async fn ask(&self, question: Question) -> Result<Decision, RpcError> {
        let mut moves = self.0.moved.subscribe();
        let mut late = pin!(sleep(self.0.config.wait));
        loop {
            moves.borrow_and_update();
            let waiting = match self.find(&question).await? {
                Found::Decided(decision) => return Ok(decision),
                Found::Waits(request) => request,
            };
            tokio::select! {
                moved = moves.changed() => if moved.is_err() {
                    return Ok(waiting.decision(GrantDecision::Deferred));
                },
                () = &mut late => return Ok(waiting.decision(GrantDecision::Deferred)),
            }
        }
    }
}

impl Approver for Inbox {
    fn decide(
        &self,
        _: &Context,
        question: Question,
    ) -> BoxFuture<'static, Result<Decision, RpcError>> {
        let inbox = self.clone();
        Box::pin(async move { inbox.ask(question).await })
    }

    /// A little longer than it waits itself, so that whoever waits is told the id.
    fn patience(&self) -> Duration {
        self.0.config.wait + Duration::from_secs(4)
    }
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("config", &self.0.config).finish_non_exhaustive()
    }
}
