//! Asking about permissions: calls that need the same share one question, and nobody waits for ever (MGP §3.4).

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use mgp_types::mgp::{Actor, Grant, GrantDecision, Permission};
use mgp_types::service::{AgentId, Context, Principal, ServerId};
use mgp_types::sync::Mutex;
use mgp_types::{Hash, Object, RpcError};
use tokio::sync::watch;

use super::entry::{Approval, ApprovalDecision, ApprovalSource};
use super::permissions::{Inner, Note, Notes, Permissions, standard};
use super::refused::PermissionRefused;
use super::rule::{Missing, MissingStatus, Stand};
use super::writing::Told;
use crate::approval::{About, Decision, Question};

/// The questions that wait for an answer; each belongs to a call that runs, whose number is bounded elsewhere.
#[derive(Debug, Default)]
pub(super) struct Board(Mutex<Vec<Waiting>>);

#[derive(Debug)]
struct Waiting {
    principal: Principal,
    server: Option<ServerId>,
    permissions: Vec<Permission>,
    done: watch::Sender<Option<Arc<Answered>>>,
}

/// What came of a question.
#[derive(Debug)]
struct Answered {
    notes: Vec<(Permission, Note)>,
    details: Object,
}

/// Whoever asks; once it is gone, somebody else may.
struct Lead<'a> {
    board: &'a Board,
    done: watch::Sender<Option<Arc<Answered>>>,
}

/// One's part in a question.
enum Part<'a> {
    Leads(Lead<'a>),
    /// Somebody asks the same, or a part of it.
    Waits(watch::Receiver<Option<Arc<Answered>>>),
}

impl Board {
    fn join(
        &self,
        principal: &Principal,
        server: Option<&ServerId>,
        open: &[Permission],
    ) -> Part<'_> {
        let mut waiting = self.waiting();
        let same = waiting.iter().find(|waiting| {
            waiting.principal == *principal
                && waiting.server.as_ref() == server
                && waiting.permissions.iter().any(|permission| open.contains(permission))
        });
        if let Some(same) = same {
            return Part::Waits(same.done.subscribe());
        }
        let done = watch::Sender::new(None);
        waiting.push(Waiting {
            principal: principal.clone(),
            server: server.cloned(),
            permissions: open.to_vec(),
            done: done.clone(),
        });
        Part::Leads(Lead { board: self, done })
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.0.lock()
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        // With it goes the last sender, which wakes those that wait.
        self.board.waiting().retain(|waiting| !waiting.done.same_channel(&self.done));
    }
}

impl Permissions {
    /// Asks about and records the permissions that a call needs.
    ///
    /// # Errors
    /// [`PermissionRefused`] if what was decided cannot be read or written.
    pub(crate) async fn ask_for_call(
        &self,
        cx: &Context,
        server: Option<&ServerId>,
        tool: &str,
        needed: &[Permission],
    ) -> Result<Notes, PermissionRefused> {
        self.obtain(cx, server, Some(tool), needed, self.call_wait).await
    }

    /// Gets decisions about permissions, as far as the policy says so and somebody gives them in time.
    pub(super) async fn obtain(
        &self,
        cx: &Context,
        server: Option<&ServerId>,
        tool: Option<&str>,
        needed: &[Permission],
        wait: Duration,
    ) -> Result<Notes, PermissionRefused> {
        let needed = standard(needed);
        let mut notes = Notes::default();
        self.inner.obtain(cx, server, tool, &needed, wait, &mut notes).await?;
        Ok(notes)
    }
}

impl Inner {
    async fn obtain(
        &self,
        cx: &Context,
        server: Option<&ServerId>,
        tool: Option<&str>,
        needed: &[Permission],
        wait: Duration,
        notes: &mut Notes,
    ) -> Result<(), PermissionRefused> {
        let told = Told { trace: cx.trace.as_deref(), tool };
        self.by_policy(cx, server, needed, &told).await?;
        let Some(approver) = &self.approver else { return Ok(()) };
        // Somebody is waited for so long, all questions of a call together; what is written takes the time it takes.
        let late = tokio::time::sleep(wait);
        let mut late = std::pin::pin!(late);
        loop {
            let open = self.open_ones(cx, server, needed, notes)?;
            if open.is_empty() {
                return Ok(());
            }
            let lead = match self.board.join(&cx.principal, server, &open) {
                Part::Leads(lead) => lead,
                Part::Waits(mut news) => {
                    tokio::select! {
                        biased;
                        () = &mut late => notes.late(&open, wait),
                        // An error says that whoever asked is gone.
                        answered = news.wait_for(Option::is_some) => {
                            if let Ok(answered) = answered && let Some(answered) = &*answered {
                                notes.take(answered);
                            }
                        }
                    }
                    continue;
                }
            };
            let question = Question::new(
                About::Permissions { permissions: open.clone(), tool: tool.map(str::to_owned) },
                server.cloned(),
                cx.principal.clone(),
                binding(&cx.principal, server, &open),
            );
            let answer = tokio::select! {
                biased;
                // What is known at once needs no time.
                answer = approver.decide(cx, question) => answer,
                () = &mut late => {
                    notes.late(&open, wait);
                    continue;
                }
            };
            let answered = Arc::new(self.remember(cx, server, &open, answer, &told).await);
            notes.take(&answered);
            lead.done.send_replace(Some(answered));
        }
    }

    /// The permissions that somebody may be asked about, and was not asked about for this call.
    fn open_ones(
        &self,
        cx: &Context,
        server: Option<&ServerId>,
        needed: &[Permission],
        notes: &Notes,
    ) -> Result<Vec<Permission>, PermissionRefused> {
        let book =
            self.entries.state().now().map_err(|error| PermissionRefused::unreadable(&error))?;
        let policy = self.policies.of(server);
        let held = book.held(cx.principal.tenant(), server);
        let at = self.entries.now();
        let open = needed.iter().filter(|permission| {
            notes.of(permission).is_none()
                && matches!(self.stand(&policy, server, held, permission, at), Stand::Open(..))
        });
        Ok(open.cloned().collect())
    }

    /// Writes down what the policy `auto_approve` grants.
    async fn by_policy(
        &self,
        cx: &Context,
        server: Option<&ServerId>,
        needed: &[Permission],
        told: &Told<'_>,
    ) -> Result<(), PermissionRefused> {
        let book =
            self.entries.state().now().map_err(|error| PermissionRefused::unreadable(&error))?;
        let policy = self.policies.of(server);
        let place = Self::place(&cx.principal, server);
        let held = book.held(&place.tenant, server);
        let at = self.entries.now();
        let granted = needed.iter().filter(|permission| {
            matches!(self.stand(&policy, server, held, permission, at), Stand::ByPolicy)
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
        self.write_answers(&place, granted, &Actor::kernel(), told).await
    }

    /// Writes down an answer, and says what came of it.
    async fn remember(
        &self,
        cx: &Context,
        server: Option<&ServerId>,
        open: &[Permission],
        answer: Result<Decision, RpcError>,
        told: &Told<'_>,
    ) -> Answered {
        let all = |note: &Note| open.iter().map(|name| (name.clone(), note.clone())).collect();
        let decision = match answer {
            Ok(decision) => decision,
            Err(error) => {
                let note = Note::Failed(format!("nobody could be asked: {}", error.message()));
                return Answered { notes: all(&note), details: Object::new() };
            }
        };
        let place = Self::place(&cx.principal, server);
        let mut decided = Vec::new();
        let mut notes = Vec::new();
        for permission in open {
            // Of what was not asked about nothing is taken.
            let single = decision.single.get(permission);
            let word = match single.map_or(decision.answer, Grant::decision) {
                GrantDecision::Approved => ApprovalDecision::Approved,
                GrantDecision::Denied => ApprovalDecision::Denied,
                // A word that is not known here decides nothing.
                _ => {
                    let note = Note::Deferred(format!("{} has not decided", decision.by));
                    notes.push((permission.clone(), note));
                    continue;
                }
            };
            let source = ApprovalSource::Answer;
            let mut approval =
                Approval::new(&place, permission.clone(), word, source, decision.by.as_str());
            approval.scope = single.and_then(Grant::scope).cloned();
            approval.expires_at.clone_from(&decision.expires_at);
            decided.push(approval);
            notes.push((permission.clone(), Note::Decided));
        }
        let actor = decision.actor();
        if !decided.is_empty()
            && let Err(refused) = self.write_answers(&place, decided, &actor, told).await
        {
            let note = Note::Failed(format!("the answer could not be kept: {refused}"));
            return Answered { notes: all(&note), details: Object::new() };
        }
        Answered { notes, details: decision.details }
    }
}

impl Notes {
    /// Returns the refusal of a call for what it still lacks after its questions.
    pub(crate) fn refuse(
        &self,
        server: Option<&ServerId>,
        tool: &str,
        mut missing: Vec<Missing>,
    ) -> PermissionRefused {
        let undecided =
            |status| matches!(status, MissingStatus::Undecided | MissingStatus::Expired);
        for lack in missing.iter_mut().filter(|lack| undecided(lack.status)) {
            match self.of(&lack.permission) {
                Some(Note::Deferred(why)) => {
                    lack.status = MissingStatus::Deferred;
                    lack.why.clone_from(why);
                }
                Some(Note::Failed(why)) => lack.why.clone_from(why),
                Some(Note::Decided) | None => {}
            }
        }
        PermissionRefused::call(server, tool, &missing, &self.details)
    }

    /// Nobody has decided in time.
    fn late(&mut self, open: &[Permission], wait: Duration) {
        let why = format!("nobody has decided within {} s", wait.as_secs_f32());
        for permission in open {
            self.add(permission, Note::Deferred(why.clone()));
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

/// What an answer is bound to: it counts for nobody else and nothing else.
fn binding(principal: &Principal, server: Option<&ServerId>, permissions: &[Permission]) -> Hash {
    let names: Vec<&str> = permissions.iter().map(Permission::as_str).collect();
    let bound = (
        principal.tenant().as_str(),
        principal.subject().as_str(),
        principal.as_agent().map(AgentId::as_str),
        server.map(ServerId::as_str),
        names,
    );
    // Texts can always be written.
    Hash::of(serde_json::to_string(&bound).unwrap_or_default().as_bytes())
}
