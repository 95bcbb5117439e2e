//! The stored form of a transaction, and its transitions as pure functions.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mgp_types::proposal::{
    Compensation, EndTransactionResult, StepRecord, StepResult, StepStatus, TransactionRecord,
    TransactionStatus,
};
use mgp_types::service::{AgentId, Context, CredentialGrant, Principal};
use mgp_types::{List, RawObject, Sha256Hash, Timestamp};
use serde::{Deserialize, Serialize};

pub(super) const SPACE: &str = "transactions";

/// The caller to whom a transaction belongs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Owner {
    tenant: String,
    subject: String,
    agent: Option<String>,
}

impl Owner {
    pub(super) fn of(principal: &Principal) -> Self {
        Self {
            tenant: principal.tenant().as_str().to_owned(),
            subject: principal.subject().as_str().to_owned(),
            agent: principal.as_agent().map(|agent| AgentId::as_str(agent).to_owned()),
        }
    }

    /// Returns the caller as a principal without administrative authority.
    pub(super) fn principal(&self) -> Principal {
        let principal = Principal::new(self.tenant.as_str(), self.subject.as_str());
        match &self.agent {
            Some(agent) => principal.agent(agent.as_str()),
            None => principal,
        }
    }

    pub(super) fn tenant(&self) -> &str {
        &self.tenant
    }

    /// Returns the caller's name as operators know it: its agent or, without an agent, its subject.
    pub(super) fn name(&self) -> &str {
        self.agent.as_deref().unwrap_or(&self.subject)
    }
}

/// The credentials that began a transaction or requested its rollback. Its compensations have no more rights than these
/// credentials.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct TransactionCredentials {
    /// The id of the API key; `None` for other credentials.
    pub(super) key: Option<String>,
    /// The permissions of the key, or the scopes of the token.
    pub(super) permissions: Vec<String>,
    /// The credentials themselves, which only the process that received them can check.
    #[serde(skip)]
    pub(super) grant: Option<CredentialGrant>,
}

impl TransactionCredentials {
    pub(super) fn of(cx: &Context) -> Option<Self> {
        let grant = cx.extensions.get::<CredentialGrant>()?;
        let (key, permissions) = (grant.key().map(str::to_owned), grant.permissions().to_vec());
        Some(Self { key, permissions, grant: Some(grant.clone()) })
    }
}

/// A stored transaction.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Saga {
    pub(super) id: String,
    pub(super) owner: Owner,
    /// The credentials of the caller who owns the transaction; `None` if that caller needed none, or if an operator
    /// decided to repeat the rollback.
    #[serde(default)]
    pub(super) credentials: Option<TransactionCredentials>,
    pub(super) status: TransactionStatus,
    pub(super) description: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) note: Option<String>,
    pub(super) began_ms: u64,
    /// The time when a step last began or ended, or when the transaction ended.
    pub(super) active_ms: u64,
    pub(super) timeout_ms: u64,
    pub(super) steps: Vec<Step>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Step {
    pub(super) id: String,
    pub(super) server: String,
    pub(super) tool: String,
    pub(super) status: StepStatus,
    pub(super) undo: Option<Undo>,
    pub(super) error: Option<String>,
    /// `true` if the tool of the step only reads, according to its definition.
    pub(super) only_reads: bool,
    /// The number of times that a person has asked to undo the step again after that failed; part of the idempotency
    /// key.
    #[serde(default)]
    pub(super) attempts: u32,
    /// The logical call whose task asked the caller a question and was then cancelled. If the call returns with the
    /// answer, the step runs again; until then it is not known whether it had an effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) asked_in: Option<String>,
    /// The logical call that last ran the step. It is not stored, because another process does not repeat the attempts
    /// of that call.
    #[serde(skip)]
    pub(super) called_in: Option<String>,
}

/// The call that undoes a step: a compensation, and the server of its tool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Undo {
    pub(super) server: String,
    pub(super) tool: String,
    pub(super) arguments: RawObject,
    pub(super) description: Option<String>,
}

impl Undo {
    /// Reads a compensation. The server of its tool is the server of the step, unless the compensation names another
    /// server.
    pub(super) fn new(compensation: Compensation, server: &str) -> Self {
        let Compensation { tool, arguments, parameters, description, server_id, .. } = compensation;
        Self {
            server: server_id.unwrap_or_else(|| server.to_owned()),
            tool,
            arguments: arguments.or(parameters).unwrap_or_default(),
            description,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let arguments = self.arguments.as_payload().as_str().len();
        let description = self.description.as_ref().map_or(0, String::len);
        self.server.len() + self.tool.len() + arguments + description
    }

    fn to_compensation(&self) -> Compensation {
        let mut compensation = Compensation::new(self.tool.as_str());
        compensation.arguments = Some(self.arguments.clone());
        compensation.description.clone_from(&self.description);
        compensation.server_id = Some(self.server.clone()).filter(|server| !server.is_empty());
        compensation
    }
}

impl Saga {
    pub(super) fn step(&mut self, id: &str) -> Option<&mut Step> {
        self.steps.iter_mut().find(|step| step.id == id)
    }

    /// Returns the size of all compensations, in bytes.
    pub(super) fn undo_bytes(&self) -> usize {
        self.steps.iter().filter_map(|step| step.undo.as_ref()).map(Undo::bytes).sum()
    }

    /// Returns an id for the next step that no other step has; the caller may have chosen the ids of some steps.
    pub(super) fn unused_step_id(&self) -> String {
        let mut number = self.steps.len();
        loop {
            number += 1;
            let id = format!("step-{number}");
            if self.steps.iter().all(|step| step.id != id) {
                return id;
            }
        }
    }

    /// Returns whether further steps can be added.
    pub(super) fn is_open(&self) -> bool {
        self.status == TransactionStatus::Begun
    }

    /// Returns whether the transaction has ended and requires no further action.
    pub(super) fn is_settled(&self) -> bool {
        matches!(
            self.status,
            TransactionStatus::Committed
                | TransactionStatus::RolledBack
                | TransactionStatus::Resolved
        )
    }

    /// Returns the index of the last step whose compensation must still be attempted.
    pub(super) fn next_to_undo(&self) -> Option<usize> {
        let is_left = |step: &Step| step.status == StepStatus::Done && step.needs_undo();
        self.steps.iter().rposition(is_left)
    }

    /// Marks the steps that may or may not have had an effect, so that a person examines them.
    pub(super) fn mark_interrupted(&mut self) {
        for step in self.steps.iter_mut().filter(|step| step.status == StepStatus::Started) {
            if step.needs_undo() {
                step.fail("its call was interrupted, so it is not known whether it had an effect");
            } else {
                step.status = StepStatus::Failed;
            }
        }
    }

    /// Ends a rollback after all compensations were tried.
    pub(super) fn finish_rollback(&mut self) {
        let is_failed = |step: &Step| step.status == StepStatus::CompensationFailed;
        self.status = if self.steps.iter().any(is_failed) {
            TransactionStatus::PartiallyRolledBack
        } else {
            TransactionStatus::RolledBack
        };
        self.active_ms = now_ms();
    }

    /// Prepares another attempt to undo the steps that could not be undone.
    pub(super) fn retry(&mut self) {
        for step in &mut self.steps {
            if step.status == StepStatus::CompensationFailed && step.undo.is_some() {
                step.status = StepStatus::Done;
                step.error = None;
                step.attempts += 1;
            }
        }
        // A person decided to try again, so the credentials of the caller no longer matter.
        self.credentials = None;
        self.status = TransactionStatus::RollingBack;
    }

    pub(super) fn result(&self) -> EndTransactionResult {
        let mut result = EndTransactionResult::new(self.id.as_str(), self.status.clone());
        let tried = [StepStatus::Compensated, StepStatus::CompensationFailed];
        let steps = self.steps.iter().rev().filter(|step| tried.contains(&step.status));
        result.steps_compensated = List::written(steps.map(Step::result).collect());
        result
    }

    pub(super) fn record(&self) -> TransactionRecord {
        let began_at = Timestamp::from(UNIX_EPOCH + Duration::from_millis(self.began_ms));
        let (id, agent) = (self.id.as_str(), self.owner.name());
        let mut record = TransactionRecord::new(id, agent, self.status.clone(), began_at);
        record.description.clone_from(&self.description);
        record.reason.clone_from(&self.reason);
        record.note.clone_from(&self.note);
        record.steps = self.steps.iter().map(Step::record).collect();
        record
    }
}

impl Step {
    /// Returns whether a rollback must undo the step. A tool that only reads needs no compensation, but one that the
    /// server or the caller names shows that there is something to undo.
    fn needs_undo(&self) -> bool {
        !self.only_reads || self.undo.is_some()
    }

    /// Returns whether the step waits for a logical call to return with the answer to a question of its task.
    pub(super) fn has_asked_in(&self, logical: Option<&str>) -> bool {
        logical.is_some()
            && self.asked_in.as_deref() == logical
            && self.status == StepStatus::Started
    }

    /// Returns whether the step was run by an attempt of this logical call, and it is unknown whether the step had an
    /// effect.
    pub(super) fn was_called_in(&self, logical: &str) -> bool {
        self.called_in.as_deref() == Some(logical) && self.status == StepStatus::Started
    }

    pub(super) fn fail(&mut self, error: &str) {
        self.status = StepStatus::CompensationFailed;
        self.error = Some(mgp_types::clip(error, 500));
    }

    /// Returns the idempotency key for an attempt to undo the step, so that the attempt runs only once. The key
    /// includes the time when the transaction began, because the transaction's id can be used again while the key is
    /// still stored.
    pub(super) fn undo_key(&self, saga: &Saga) -> String {
        let name = format!("{}\n{}\n{}", saga.id, saga.began_ms, self.id);
        let hash = Sha256Hash::digest(name.as_bytes()).to_string();
        format!("compensate-{}-{}", &hash[..32], self.attempts)
    }

    fn result(&self) -> StepResult {
        let mut result = StepResult::new(self.id.as_str(), self.status.clone());
        result.error.clone_from(&self.error);
        result
    }

    fn record(&self) -> StepRecord {
        let (id, server, tool) = (self.id.as_str(), self.server.as_str(), self.tool.as_str());
        let mut record = StepRecord::new(id, server, tool, self.status.clone());
        record.compensation = self.undo.as_ref().map(Undo::to_compensation);
        record.error.clone_from(&self.error);
        record
    }
}

/// Returns the current time in milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, mgp_types::millis)
}
