//! Questions about permissions: calls that need the same permissions share one question, and each call waits for a
//! limited time (MGP §3.4).

use std::sync::Arc;
use std::time::Duration;

use mgp_types::mgp::{Actor, Grant, GrantDecision, Permission};
use mgp_types::service::{AgentId, Context, Principal, Rule, ServerId};
use mgp_types::sync::{Mutex, MutexGuard};
use mgp_types::{Object, RpcError, Sha256Hash};
use tokio::sync::watch;

use super::entry::{Approval, ApprovalDecision, ApprovalSource};
use super::permissions::{AskOutcome, AskOutcomes, PermissionCore, Permissions};
use super::refused::PermissionRefused;
use super::rule::{MissingPermission, MissingStatus, PermissionState};
use super::stored_approvals::ChangeCause;
use crate::approval::{Decision, LeftOpen, Question, QuestionSubject};

/// The questions that wait for an answer. Each belongs to a running call, so their number is limited by the number of
/// running calls.
#[derive(Debug, Default)]
pub(super) struct OpenQuestions(Mutex<Vec<OpenQuestion>>);

#[derive(Debug)]
struct OpenQuestion {
    principal: Principal,
    server: Option<ServerId>,
    permissions: Vec<Permission>,
    done: watch::Sender<Option<Arc<Answered>>>,
}

/// The outcome of a question, for all calls that wait for it.
#[derive(Debug)]
struct Answered {
    notes: Vec<(Permission, AskOutcome)>,
    details: Object,
}

/// A guard of the call that asks the approver on behalf of all waiting calls. If the guard is dropped without an
/// answer, another of these calls can ask.
struct QuestionOwner<'a> {
    board: &'a OpenQuestions,
    done: watch::Sender<Option<Arc<Answered>>>,
}

/// The role of a call in a question that several calls share.
enum QuestionRole<'a> {
    Leads(QuestionOwner<'a>),
    /// Another call is already asking about some or all of the same permissions; this call waits for that answer.
    Waits(watch::Receiver<Option<Arc<Answered>>>),
}

impl OpenQuestions {
    fn join(
        &self,
        principal: &Principal,
        server: Option<&ServerId>,
        open: &[Permission],
    ) -> QuestionRole<'_> {
        let mut waiting = self.waiting();
        let same = waiting.iter().find(|waiting| {
            waiting.principal == *principal
                && waiting.server.as_ref() == server
                && waiting.permissions.iter().any(|permission| open.contains(permission))
        });
        if let Some(same) = same {
            return QuestionRole::Waits(same.done.subscribe());
        }
        let done = watch::Sender::new(None);
        waiting.push(OpenQuestion {
            principal: principal.clone(),
            server: server.cloned(),
            permissions: open.to_vec(),
            done: done.clone(),
        });
        QuestionRole::Leads(QuestionOwner { board: self, done })
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<OpenQuestion>> {
        self.0.lock()
    }
}

impl Drop for QuestionOwner<'_> {
    fn drop(&mut self) {
        // Remove the question, so that its last sender is dropped with this guard. That wakes the calls that wait.
        self.board.waiting().retain(|waiting| !waiting.done.same_channel(&self.done));
    }
}

impl Permissions {
    /// Obtains and records decisions about the permissions that a call needs.
    ///
    /// # Errors
    /// [`PermissionRefused`] if decisions cannot be read or stored.
    pub(crate) async fn ask_for_call(
        &self,
        cx: &Context,
        server: Option<&ServerId>,
        tool: &str,
        needed: &[Permission],
    ) -> Result<AskOutcomes, PermissionRefused> {
        self.obtain(cx, server, Some(tool), needed, self.call_wait()).await
    }

    /// Obtains decisions about permissions, if the policy allows questions and an approver decides in time.
    pub(super) async fn obtain(
        &self,
        cx: &Context,
        server: Option<&ServerId>,
        tool: Option<&str>,
        needed: &[Permission],
        wait: Duration,
    ) -> Result<AskOutcomes, PermissionRefused> {
        let needed = Permission::canonical(needed);
        let mut notes = AskOutcomes::default();
        self.inner.obtain(cx, server, tool, &needed, wait, &mut notes).await?;
        Ok(notes)
    }
}

impl PermissionCore {
    async fn obtain(
        &self,
        cx: &Context,
        server: Option<&ServerId>,
        tool: Option<&str>,
        needed: &[Permission],
        wait: Duration,
        notes: &mut AskOutcomes,
    ) -> Result<(), PermissionRefused> {
        let cause = ChangeCause { trace: cx.trace.as_deref(), tool };
        self.by_policy(cx, server, needed, &cause).await?;
        let Some(approver) = &self.approver else { return Ok(()) };
        // Create the timer once, before the loop, because the limit covers the total time that a call waits for
        // approvers. The storing of their answers does not count.
        let late = tokio::time::sleep(wait);
        let mut late = std::pin::pin!(late);
        loop {
            let open = self.open_ones(cx, server, needed, notes)?;
            if open.is_empty() {
                return Ok(());
            }
            let lead = match self.board.join(&cx.principal, server, &open) {
                QuestionRole::Leads(lead) => lead,
                QuestionRole::Waits(mut news) => {
                    tokio::select! {
                        biased;
                        () = &mut late => notes.late(&open, wait),
                        // An error means that the call which asked on behalf of all waiting calls was dropped. Then
                        // this call tries again, and can ask itself.
                        answered = news.wait_for(Option::is_some) => {
                            if let Ok(answered) = answered && let Some(answered) = &*answered {
                                notes.take(answered);
                            }
                        }
                    }
                    continue;
                }
            };
            let question = self.question(cx, server, tool, &open);
            let answer = tokio::select! {
                biased;
                // If an answer is available immediately, it is used even if the time limit has passed.
                answer = approver.decide(cx, question) => answer,
                () = &mut late => {
                    notes.late(&open, wait);
                    continue;
                }
            };
            let answered = Arc::new(self.remember(cx, server, &open, answer, &cause).await);
            notes.take(&answered);
            lead.done.send_replace(Some(answered));
        }
    }

    fn question(
        &self,
        cx: &Context,
        server: Option<&ServerId>,
        tool: Option<&str>,
        open: &[Permission],
    ) -> Question {
        let about = QuestionSubject::Permissions {
            permissions: open.to_vec(),
            tool: tool.map(str::to_owned),
        };
        let binding = binding(&cx.principal, server, open);
        let mut question = Question::new(about, server.cloned(), cx.principal.clone(), binding);
        let policy = self.policies.get(server);
        let policy = policy.permission_policy.as_str();
        question.rule = Some(Rule::new(format!("permission_policy {policy}")));
        question.trace = cx.trace.as_deref().map(str::to_owned);
        question
    }

    /// Returns the needed permissions that an approver can decide about and that this call has not asked about yet.
    fn open_ones(
        &self,
        cx: &Context,
        server: Option<&ServerId>,
        needed: &[Permission],
        notes: &AskOutcomes,
    ) -> Result<Vec<Permission>, PermissionRefused> {
        let book =
            self.entries.state().now().map_err(|error| PermissionRefused::unreadable(&error))?;
        let policy = self.policies.get(server);
        let held = book.held(cx.principal.tenant(), server);
        let at = self.entries.now();
        let open = needed.iter().filter(|permission| {
            notes.of(permission).is_none()
                && matches!(
                    self.stand(&policy, server, held, permission, at),
                    PermissionState::Open(..)
                )
        });
        Ok(open.cloned().collect())
    }

    /// Grants the permissions that the policy `auto_approve` covers; stores and records these grants.
    async fn by_policy(
        &self,
        cx: &Context,
        server: Option<&ServerId>,
        needed: &[Permission],
        cause: &ChangeCause<'_>,
    ) -> Result<(), PermissionRefused> {
        let book =
            self.entries.state().now().map_err(|error| PermissionRefused::unreadable(&error))?;
        let policy = self.policies.get(server);
        let place = Self::place(&cx.principal, server);
        let held = book.held(&place.tenant, server);
        let at = self.entries.now();
        let granted = needed.iter().filter(|permission| {
            matches!(self.stand(&policy, server, held, permission, at), PermissionState::ByPolicy)
        });
        let granted = granted.map(|permission| {
            let by = policy.permission_policy.as_str();
            let (decision, source) = (ApprovalDecision::Approved, ApprovalSource::Policy);
            Approval::new(&place, permission.clone(), decision, source, by)
        });
        let granted: Vec<_> = granted.collect();
        if granted.is_empty() {
            return Ok(());
        }
        self.write_answers(&place, granted, &Actor::kernel(), cause).await
    }

    /// Stores and records an answer, and returns its outcome for the calls that wait.
    async fn remember(
        &self,
        cx: &Context,
        server: Option<&ServerId>,
        open: &[Permission],
        answer: Result<Decision, RpcError>,
        cause: &ChangeCause<'_>,
    ) -> Answered {
        let all =
            |note: &AskOutcome| open.iter().map(|name| (name.clone(), note.clone())).collect();
        let decision = match answer {
            Ok(decision) => decision,
            Err(error) => {
                let note =
                    AskOutcome::Failed(format!("no approver could be asked: {}", error.message()));
                return Answered { notes: all(&note), details: Object::new() };
            }
        };
        let place = Self::place(&cx.principal, server);
        let mut decided = Vec::new();
        let mut notes = Vec::new();
        for permission in open {
            // Answers about permissions that are not in `open` are ignored.
            let single = decision.per_permission.get(permission);
            let word = match single.map_or(decision.answer, Grant::decision) {
                GrantDecision::Approved => ApprovalDecision::Approved,
                GrantDecision::Denied => ApprovalDecision::Denied,
                // A decision that this program does not know counts as deferred.
                _ => {
                    let note = undecided(&decision);
                    notes.push((permission.clone(), note));
                    continue;
                }
            };
            let source = ApprovalSource::Answer;
            let mut approval =
                Approval::new(&place, permission.clone(), word, source, decision.by.as_str());
            approval.scope = single.and_then(Grant::scope).cloned();
            approval.expires_at.clone_from(&decision.expires_at);
            approval.justification = decision.reason();
            decided.push(approval);
            notes.push((permission.clone(), AskOutcome::Decided));
        }
        let actor = decision.actor();
        if !decided.is_empty()
            && let Err(refused) = self.write_answers(&place, decided, &actor, cause).await
        {
            let note = AskOutcome::Failed(format!("the answer could not be kept: {refused}"));
            return Answered { notes: all(&note), details: Object::new() };
        }
        Answered { notes, details: decision.details }
    }
}

fn undecided(decision: &Decision) -> AskOutcome {
    let id: Option<String> = decision.details.decode("approval_id").ok().flatten();
    match (decision.left_open(), id) {
        (Some(LeftOpen::NotAllowed), _) => {
            AskOutcome::Failed(format!("{} did not allow it", decision.by))
        }
        (Some(LeftOpen::Closed), None) => {
            AskOutcome::Failed("the question was closed without an answer".to_owned())
        }
        (_, Some(id)) => AskOutcome::Deferred(format!("approval {id} is not decided yet")),
        (_, None) => AskOutcome::Deferred(format!("{} has not decided", decision.by)),
    }
}

impl AskOutcomes {
    /// Returns the refusal of a call that still lacks permissions after it has asked for them. The outcomes of its
    /// questions supply the reasons.
    pub(crate) fn refuse(
        &self,
        server: Option<&ServerId>,
        tool: &str,
        mut missing: Vec<MissingPermission>,
    ) -> PermissionRefused {
        let undecided =
            |status| matches!(status, MissingStatus::Undecided | MissingStatus::Expired);
        for lack in missing.iter_mut().filter(|lack| undecided(lack.status)) {
            match self.of(&lack.permission) {
                Some(AskOutcome::Deferred(why)) => {
                    lack.status = MissingStatus::Deferred;
                    lack.why.clone_from(why);
                }
                Some(AskOutcome::Failed(why)) => lack.why.clone_from(why),
                Some(AskOutcome::Decided) | None => {}
            }
        }
        PermissionRefused::call(server, tool, &missing, &self.details)
    }

    /// Notes that the open permissions were not decided in time.
    fn late(&mut self, open: &[Permission], wait: Duration) {
        let why = format!("not decided within {} s", wait.as_secs_f32());
        for permission in open {
            self.add(permission, AskOutcome::Deferred(why.clone()));
        }
    }

    fn take(&mut self, answered: &Answered) {
        for (permission, note) in &answered.notes {
            self.add(permission, note.clone());
        }
        for (name, value) in answered.details.iter() {
            self.details.insert(name, value.clone());
        }
    }
}

/// Returns the hash that binds an answer to this caller, server and permissions.
fn binding(
    principal: &Principal,
    server: Option<&ServerId>,
    permissions: &[Permission],
) -> Sha256Hash {
    let names: Vec<&str> = permissions.iter().map(Permission::as_str).collect();
    let bound = (
        principal.tenant().as_str(),
        principal.subject().as_str(),
        principal.as_agent().map(AgentId::as_str),
        server.map(ServerId::as_str),
        names,
    );
    // Encoding strings cannot fail.
    Sha256Hash::digest(serde_json::to_string(&bound).unwrap_or_default().as_bytes())
}
