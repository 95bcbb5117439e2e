//! The confirmations of calls. Each is requested for one call, bound to it, and used once (MGP §4.4).

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mgp_types::mgp::{Actor, AuditEvent, GrantDecision, Permission, RiskLevel};
use mgp_types::service::{
    AgentId, AuditSink, CallRecord, CallerAccess, CallerChannel, Context, MemoryAudit, Principal,
    ServerId,
};
use mgp_types::{ErrorCode, Object, Payload, Sha256Hash, Timestamp, canonical, millis};
use serde::{Deserialize, Serialize};

use super::named_tool::{NamedTool, NamedTools};
use super::pending::Pending;
use super::refused::{ConfirmRefused, Unconfirmed, is_past, rule_of};
use super::used::{NotUsable, Used};
use crate::approval::{
    AnswerPlace, ApprovalRequest, Approver, CallApproval, CallApprovals, CalledTool, Decision,
    LeftOpen, Question, QuestionSubject,
};
use crate::audit::Event;
use crate::error::Refusal;
use crate::permission::MissingPermission;
use crate::policy::Policies;
use crate::tool::assess::Assess;
use crate::tool::assessment::Assessment;

/// The limits of [`Confirmations`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConfirmConfig {
    /// The time for which a confirmation is valid, counted from the question. It must not be shorter than the
    /// approver's time limit. Default: 15 minutes; without a [config](Confirmations::config), it is never shorter than
    /// the approver's current time limit.
    pub lives: Duration,
    /// The maximum number of open questions per caller; further calls are refused with code 3001 (resource exhausted).
    /// Default: 16.
    pub open_each: usize,
    /// The maximum number of open questions of all callers; further calls are refused with code 3001 (resource
    /// exhausted). Default: 1,024.
    pub open_all: usize,
    /// The maximum number of used confirmations that are remembered until they expire; further calls are refused with
    /// code 3001 (resource exhausted). Default: 65,536.
    pub used: usize,
    /// The maximum length of arguments in bytes, because an approver must be able to read them. Longer arguments are
    /// refused. Default: 256 KiB.
    pub arguments: usize,
}

impl Default for ConfirmConfig {
    fn default() -> Self {
        Self {
            lives: Duration::from_mins(15),
            open_each: 16,
            open_all: 1024,
            used: 65_536,
            arguments: 256 * 1024,
        }
    }
}

/// The confirmations of risky calls, each bound to one call and used once; a handle that is cheap to clone.
#[derive(Clone)]
#[must_use]
pub struct Confirmations {
    policies: Policies,
    approver: Arc<dyn Approver>,
    audit: Arc<dyn AuditSink>,
    named: Arc<[Arc<dyn NamedTools>]>,
    calls: Option<CallApprovals>,
    /// The configured [`ConfirmConfig::lives`], if any.
    lives: Option<Duration>,
    max_arguments: usize,
    pending: Arc<Pending>,
    used: Arc<Used>,
}

/// A call that must be confirmed before it runs.
pub(crate) struct RiskyCall {
    pub(crate) cx: Context,
    pub(crate) server: Option<ServerId>,
    pub(crate) tool: String,
    pub(crate) arguments: Payload,
    pub(crate) assessment: Arc<Assessment>,
    /// The permissions that the server lacks for the call.
    pub(crate) missing: Vec<Permission>,
    /// A permission whose limits the call may exceed.
    pub(crate) doubt: Option<MissingPermission>,
    /// The hash of the tool's definition, if it is known.
    pub(crate) definition: Option<Sha256Hash>,
}

/// The state of a confirmation. The caller carries this state, sealed, from one request (round) of a call to the next.
#[derive(Serialize, Deserialize)]
struct CarriedConfirmation {
    /// The time of the question, in milliseconds since 1970.
    asked_at: u64,
    /// The name of the approver; `None` until the call is confirmed.
    by: Option<String>,
    /// The expiry of the approval; `None` if the approver set none.
    until: Option<Timestamp>,
    /// The number of times that the call has run with this confirmation.
    runs: u32,
}

impl Confirmations {
    /// Creates confirmations that an approver gives. They are recorded only if a sink is [set](Self::audit), and tools
    /// are exempt only if a source of entries is [added](Self::named).
    pub fn new(policies: Policies, approver: impl Approver + 'static) -> Self {
        let ConfirmConfig { open_each, open_all, used, arguments, .. } = ConfirmConfig::default();
        Self {
            policies,
            audit: Arc::new(MemoryAudit::bounded(0)),
            named: Arc::default(),
            calls: None,
            lives: None,
            max_arguments: arguments,
            pending: Arc::new(Pending::new(open_each, open_all)),
            used: Arc::new(Used::new(used)),
            approver: Arc::new(approver),
        }
    }

    /// Sets the sink that records confirmations and denials. A call whose confirmation cannot be recorded does not run.
    pub fn audit(mut self, sink: Arc<dyn AuditSink>) -> Self {
        self.audit = sink;
        self
    }

    /// Sets the store of approvals that also apply to later calls.
    pub(crate) fn calls(mut self, calls: CallApprovals) -> Self {
        self.calls = Some(calls);
        self
    }

    /// Returns an approval that was given with an earlier call, also covers this call, and is sufficient for it.
    /// Returns `None` if no stored approval is sufficient for the call.
    pub(crate) fn approved(
        &self,
        by: &Principal,
        server: Option<&ServerId>,
        call: &CalledTool<'_>,
        at: SystemTime,
        is_enough: impl Fn(&CallApproval) -> bool,
    ) -> Option<Arc<CallApproval>> {
        self.calls.as_ref()?.find(by, server, call, at, is_enough)
    }

    /// Adds a source of operators' entries that name tools. Such an entry can make a confirmation of the named tool's
    /// calls unnecessary.
    pub fn named(mut self, named: impl NamedTools + 'static) -> Self {
        let one: Arc<dyn NamedTools> = Arc::new(named);
        self.named = self.named.iter().cloned().chain([one]).collect();
        self
    }

    /// Sets the limits, and forgets which confirmations were already used.
    pub fn config(mut self, config: &ConfirmConfig) -> Self {
        self.lives = Some(config.lives);
        self.max_arguments = config.arguments;
        self.pending = Arc::new(Pending::new(config.open_each, config.open_all));
        self.used = Arc::new(Used::new(config.used));
        self
    }

    /// Returns the entry that names a tool, if a [source](Self::named) has such an entry. If there are several, returns
    /// the entry that exempts more calls from confirmation.
    pub(crate) fn naming(
        &self,
        cx: &Context,
        server: Option<&ServerId>,
        tool: &str,
    ) -> Option<NamedTool> {
        let namings = self.named.iter().filter_map(|named| named.named(cx, server, tool));
        namings.reduce(NamedTool::stronger)
    }

    pub(crate) fn policies(&self) -> &Policies {
        &self.policies
    }

    /// Obtains a confirmation that is valid for one run of a call.
    ///
    /// The order of the steps matters. The run is claimed before the answer is recorded: no confirmation may be
    /// recorded that cannot be used. The answer is recorded before it is stored for later calls: no stored answer may
    /// apply without a record. The tool is compared last, because it can change during the question and while the
    /// answer is recorded. Only then is the confirmation saved for the next request (round) of the call.
    pub(crate) async fn confirm(&self, call: RiskyCall, tools: &dyn Assess) -> Result<(), Refusal> {
        if call.arguments.as_str().len() > self.max_arguments {
            return Err(call.refused(Unconfirmed::TooLong));
        }
        let arguments = canonical(call.arguments.as_str());
        let arguments = arguments.map_err(|_| call.refused(Unconfirmed::Unreadable))?;
        let mut question = call.question(arguments);
        question.keeps_terms = self.calls.is_some();
        question.message.clone_from(&call.assessment.confirmation_message);
        question.rule = Some(rule_of(&call.assessment));
        let doubt = call.doubt.as_ref();
        question.doubt =
            doubt.map(|limit| format!("{}, but `{}` is limited", limit.why, limit.permission));
        question.trace = call.cx.trace.as_deref().map(str::to_owned);

        let book = RoundStore::of(&call.cx, question.binding);
        let mut kept = book.open();
        if kept.by.is_none() {
            self.ask_and_record(&call, &question, &book, &mut kept).await?;
        } else {
            let claimed = self.claim_run(&call.cx, question.binding, &book, &mut kept);
            claimed.map_err(|why| call.refused(why))?;
        }
        call.check_unchanged(tools)?;
        if let Some(by) = &kept.by {
            note(&call.cx, "confirmed_by", by);
        }
        book.save(&kept);
        Ok(())
    }

    /// Asks the approver, claims the run of the call (see `claim_run`), and records the answer.
    async fn ask_and_record(
        &self,
        call: &RiskyCall,
        question: &Question,
        book: &RoundStore<'_>,
        kept: &mut CarriedConfirmation,
    ) -> Result<(), Refusal> {
        let _open = self
            .pending
            .open(&call.cx.principal)
            .ok_or_else(|| call.refused(Unconfirmed::TooMany))?;
        let answer = self.approval(call, question).await;
        let decision = answer.map_err(|(why, more)| call.refused_with(why, more))?;
        let why = decision.reason();
        kept.until.clone_from(&decision.expires_at);
        let claimed = self.claim_run(&call.cx, question.binding, book, kept);
        claimed.map_err(|why| call.refused(why))?;
        let event = call
            .event(Event::confirmation_given, decision.actor(), question)
            .justification(why.as_deref())
            .via(decision.via.map(AnswerPlace::as_str))
            .expires_at(decision.expires_at.as_ref());
        if let Ok(Some(id)) = decision.details.decode::<String>("approval_id") {
            note(&call.cx, "approval_id", &id);
        }
        self.audit.record(event.build()).await.map_err(Refusal::Unaudited)?;
        self.store_term(question, &decision).await;
        kept.by = Some(decision.by);
        Ok(())
    }

    /// Asks the approver. A denial is recorded and returned as an error with the approver's details.
    async fn approval(
        &self,
        call: &RiskyCall,
        question: &Question,
    ) -> Result<Decision, (Unconfirmed, Object)> {
        let decision = match self.ask(&call.cx, question.clone()).await {
            Ok(decision) => decision,
            Err(why) => {
                if why == Unconfirmed::Unanswered {
                    let event = call.event(Event::confirmation_denied, Actor::kernel(), question);
                    self.record(event.cause("expired").build()).await;
                }
                return Err((why, Object::new()));
            }
        };
        match decision.answer {
            GrantDecision::Approved => Ok(decision),
            GrantDecision::Deferred => {
                let why = match decision.left_open() {
                    Some(LeftOpen::Closed) => Unconfirmed::Closed,
                    _ => Unconfirmed::Deferred,
                };
                Err((why, decision.details))
            }
            _ => {
                let event = call.event(Event::confirmation_denied, decision.actor(), question);
                let why = decision.reason();
                let event = event.via(decision.via.map(AnswerPlace::as_str));
                self.record(event.justification(why.as_deref()).build()).await;
                Err((Unconfirmed::Denied, decision.details))
            }
        }
    }

    /// Stores an approval for later calls. If storing fails, the later calls must be confirmed again.
    async fn store_term(&self, question: &Question, decision: &Decision) {
        let Some(calls) = &self.calls else { return };
        let now = SystemTime::now();
        let request = ApprovalRequest::of(question, String::new(), now, now);
        let (by, reason) = (decision.actor(), decision.reason());
        if let Err(error) = calls.keep(&request, &decision.term, by, reason.as_deref()).await {
            tracing::warn!(%error, "an approval for later calls was not kept");
        }
    }

    /// Records that a call was not confirmed. If recording fails, the call is refused nevertheless.
    async fn record(&self, event: AuditEvent) {
        if let Err(error) = self.audit.record(event).await {
            tracing::error!(%error, "a missing confirmation was not recorded");
        }
    }

    /// Returns the time for which a confirmation is valid. The approver's time limit can change at any time.
    fn lives(&self) -> Duration {
        self.lives.unwrap_or_else(|| ConfirmConfig::default().lives.max(self.approver.timeout()))
    }

    async fn ask(&self, cx: &Context, question: Question) -> Result<Decision, Unconfirmed> {
        match tokio::time::timeout(self.approver.timeout(), self.approver.decide(cx, question))
            .await
        {
            Ok(Ok(decision)) => Ok(decision),
            Ok(Err(error)) => {
                tracing::debug!(%error, "call was not confirmed");
                Err(match error.code() {
                    ErrorCode::RESOURCE_EXHAUSTED => Unconfirmed::TooMany,
                    _ => Unconfirmed::NobodyToAsk,
                })
            }
            Err(_) => Err(Unconfirmed::Unanswered),
        }
    }

    /// Checks that the confirmation has not expired, and claims it for the next run of the call, so that no other
    /// request can use it for the same run.
    fn claim_run(
        &self,
        cx: &Context,
        binding: Sha256Hash,
        book: &RoundStore<'_>,
        kept: &mut CarriedConfirmation,
    ) -> Result<(), Unconfirmed> {
        let lives = self.lives();
        // Uses the absolute difference, so that setting the clock back cannot extend the validity.
        let age = now().abs_diff(kept.asked_at);
        if age >= millis(lives) || is_past(kept.until.as_ref()) {
            return Err(Unconfirmed::Expired);
        }
        // If the caller carries no state between its requests, no answer can be replayed, because the question is asked
        // for each run.
        if let Some(logical) = cx.logical.as_ref().filter(|_| book.is_carried()) {
            let claimed = self.used.claim(logical, binding, kept.runs, lives);
            kept.runs = claimed.map_err(|why| match why {
                NotUsable::Used => Unconfirmed::Used,
                NotUsable::Full => Unconfirmed::Full,
            })?;
        }
        Ok(())
    }
}

mgp_types::opaque_debug!(Confirmations { lives });

type EventOf = fn(Actor, Option<&ServerId>, &str, &RiskLevel, &Sha256Hash) -> Event;

impl RiskyCall {
    /// Returns the refusal of the call because it was not confirmed.
    fn refused(&self, why: Unconfirmed) -> Refusal {
        self.refused_with(why, Object::new())
    }

    /// Returns the refusal of the call because it was not confirmed, with details of the approver.
    fn refused_with(&self, why: Unconfirmed, more: Object) -> Refusal {
        let (server, missing) = (self.server.as_ref(), &self.missing);
        ConfirmRefused::new(server, &self.tool, &self.assessment, missing, (why, more)).into()
    }

    /// Checks that the tool still has the definition and the risk that the approver saw.
    fn check_unchanged(&self, tools: &dyn Assess) -> Result<(), Refusal> {
        let server = self.server.as_ref();
        let now = tools.assessment(server, &self.tool);
        if tools.definition(server, &self.tool) != self.definition
            || now.effective_risk != self.assessment.effective_risk
        {
            return Err(self.refused(Unconfirmed::Changed));
        }
        Ok(())
    }

    fn event(&self, event_of: EventOf, by: Actor, question: &Question) -> Event {
        let risk = &self.assessment.effective_risk;
        event_of(by, self.server.as_ref(), &self.tool, risk, &question.binding)
            .tenant(self.cx.principal.tenant().as_str())
            .trace(self.cx.trace.as_deref())
    }

    /// Returns the question about the call, with a hash of everything for which the answer is valid.
    fn question(&self, arguments: String) -> Question {
        let principal = &self.cx.principal;
        let definition = self.definition.map(|hash| hash.to_string());
        let parts = [
            Some(principal.tenant().as_str()),
            Some(principal.subject().as_str()),
            principal.as_agent().map(AgentId::as_str),
            self.server.as_ref().map(ServerId::as_str),
            Some(&self.tool),
            Some(&arguments),
            definition.as_deref(),
        ];
        let names: Vec<&str> = self.missing.iter().map(Permission::as_str).collect();
        // The debug format escapes quotes, so different lists of parts result in different texts.
        let binding = Sha256Hash::digest(format!("{parts:?}{names:?}").as_bytes());
        let call = Sha256Hash::digest(format!("{parts:?}").as_bytes());
        let about = QuestionSubject::Call {
            tool: self.tool.clone(),
            arguments,
            risk: self.assessment.effective_risk.clone(),
            permissions: self.missing.clone(),
        };
        let question = Question::new(about, self.server.clone(), principal.clone(), binding);
        Question { call: Some(call), ..question }
    }
}

/// Access to the confirmation that the caller carries from one request (round) of a call to the next.
struct RoundStore<'a> {
    asker: Option<&'a dyn CallerChannel>,
    key: String,
}

impl<'a> RoundStore<'a> {
    fn of(cx: &'a Context, binding: Sha256Hash) -> Self {
        let asker = match &cx.caller_access {
            CallerAccess::Channel(asker) => Some(&**asker),
            _ => None,
        };
        Self { asker, key: format!("mgp.confirmed.{binding}") }
    }

    /// Returns the carried state. If none is carried, returns a new state with the current time.
    fn open(&self) -> CarriedConfirmation {
        let kept = self.asker.and_then(|asker| asker.kept(&self.key));
        kept.and_then(|kept| kept.get().ok()).unwrap_or_else(|| {
            let kept = CarriedConfirmation { asked_at: now(), by: None, until: None, runs: 0 };
            self.save(&kept);
            kept
        })
    }

    fn save(&self, kept: &CarriedConfirmation) {
        if let (Some(asker), Ok(kept)) = (self.asker, Payload::of(kept)) {
            asker.keep(&self.key, &kept);
        }
    }

    /// Returns whether the caller carries the state to its next request of the call.
    fn is_carried(&self) -> bool {
        self.asker.is_some_and(|asker| asker.kept(&self.key).is_some())
    }
}

/// Adds a detail to the audit record of the call, if the call is recorded.
pub(crate) fn note(cx: &Context, name: &str, word: &str) {
    if let (Some(start), Ok(word)) = (cx.extensions.get::<CallRecord>(), Payload::of(word)) {
        start.add_note(name, word);
    }
}

/// Returns milliseconds since 1970. An `Instant` is not usable here, because the requests of one call can be handled by
/// different processes.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis)
}
