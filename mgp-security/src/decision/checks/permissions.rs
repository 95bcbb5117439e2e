//! The check of the permissions that the call needs from its server (§3).

use mgp_types::mgp::Permission;
use mgp_types::service::{Principal, ServerId};
use mgp_types::store::StoreError;

use crate::access::Moment;
use crate::decision::{
    CallDecision, CallFacts, CallOutcome, Recorder, Requirement, Snapshot, Sources, Stage,
    StepResult,
};
use crate::error::Refusal;
use crate::permission::{
    AskOutcomes, MissingPermission, PermissionJudgement, PermissionNeed, PermissionRefused,
};
use crate::tool::Assessment;

impl<R: Recorder> CallDecision<'_, '_, R> {
    /// Checks that the call has its permissions, which [`judge_permissions`] has judged. Returns a permission whose
    /// limits the call may exceed, if there is one.
    pub(in crate::decision) fn check_permissions<'j>(
        &mut self,
        assessment: &Assessment,
        judged: Option<&'j Result<PermissionJudgement, StoreError>>,
    ) -> Result<Option<&'j MissingPermission>, CallOutcome> {
        let Some(judged) = judged else { return Ok(None) };
        let judgement = judged.as_ref().map_err(|error| {
            self.steps.add(Stage::Permissions, StepResult::Refused, || error.to_string());
            Refusal::from(Box::new(PermissionRefused::unreadable(error)))
        })?;
        let is_asked = self.facts.preparations.asked.is_some();
        if judgement.missing.is_empty() && (is_asked || !judgement.to_record) {
            for permission in &assessment.permissions {
                let name = || permission.as_str().to_owned();
                self.steps.add(Stage::Permissions, StepResult::Passed, name);
            }
            return Ok(judgement.doubt.as_ref());
        }
        if self.is_granted_for_call(judgement) {
            let why = || "granted for this call".to_owned();
            self.steps.add(Stage::Permissions, StepResult::Passed, why);
            return Ok(judgement.doubt.as_ref());
        }
        Err(self.ask_or_refuse(judgement))
    }

    /// Returns whether a person granted the missing permissions for this call, or for similar calls.
    fn is_granted_for_call(&self, judgement: &PermissionJudgement) -> bool {
        let Self { facts, snapshot, .. } = *self;
        let lacks_none = |granted: &[Permission]| {
            judgement.missing.iter().all(|missing| granted.contains(&missing.permission))
        };
        judgement.may_ask
            && (lacks_none(&facts.preparations.granted)
                || snapshot.approved(facts, |call| lacks_none(&call.permissions)).is_some())
    }

    /// Returns the question about the missing permissions, or the refusal if approvers cannot be asked or were already
    /// asked.
    fn ask_or_refuse(&mut self, judgement: &PermissionJudgement) -> CallOutcome {
        let CallFacts { server, tool, preparations, .. } = *self.facts;
        let asks = may_be_granted(judgement) && preparations.asked.is_none();
        for missing in &judgement.missing {
            let result = if asks { StepResult::Asks } else { StepResult::Refused };
            let why = || format!("{}: {}", missing.permission, missing.why);
            self.steps.add(Stage::Permissions, result, why);
        }
        let missing = judgement.missing.clone();
        if asks {
            if missing.is_empty() {
                let why = || "an event must record what the policy grants first".to_owned();
                self.steps.add(Stage::Permissions, StepResult::Asks, why);
            }
            return CallOutcome::Ask(Requirement::Permissions(missing));
        }
        let none = AskOutcomes::default();
        let outcomes = preparations.asked.as_ref().unwrap_or(&none);
        Refusal::from(Box::new(outcomes.refuse(server, tool, missing))).into()
    }
}

/// Judges the permissions of a call; `None` if it needs none.
pub(crate) fn judge_permissions(
    facts: &CallFacts<'_>,
    snapshot: &Snapshot<'_>,
    assessment: &Assessment,
) -> Option<Result<PermissionJudgement, StoreError>> {
    let needed = assessment.permissions.as_slice();
    let CallFacts { server, tool, arguments, .. } = *facts;
    let view = snapshot.permissions_for(server, needed)?;
    let (principal, at) = (&facts.call.cx().principal, facts.at.get());
    let is_of_tools = &|permission: &Permission| snapshot.is_of_tools(permission);
    let need = PermissionNeed {
        principal,
        server,
        tool,
        needed,
        arguments,
        any_arguments: facts.preparations.any_arguments,
        definition: snapshot.definition(tool),
        at,
        is_of_tools,
    };
    Some(view.judge(&need, &snapshot.policy(server)))
}

/// Returns whether a call lacks no permission, or approvers can be asked about all that it lacks.
pub(in crate::decision) fn may_be_granted(judgement: &PermissionJudgement) -> bool {
    judgement.may_ask || judgement.missing.is_empty()
}

/// Returns the permissions that a call lacks, if approvers can be asked about them. Returns `None` if approvers must
/// not be asked, or if the stored permissions cannot be read.
pub(crate) fn lacked_permissions(
    facts: &CallFacts<'_>,
    snapshot: &Snapshot<'_>,
    assessment: &Assessment,
) -> Option<Vec<Permission>> {
    let Some(judged) = judge_permissions(facts, snapshot, assessment) else {
        return Some(Vec::new());
    };
    let judgement = judged.ok().filter(may_be_granted)?;
    let missing = judgement.missing.iter().map(|missing| &missing.permission);
    Some(Permission::canonical(missing))
}

/// Returns the permissions that are missing for every call of a tool, whatever its arguments.
pub(crate) fn missing(
    sources: &Sources,
    principal: &Principal,
    server: &ServerId,
    tool: &str,
) -> Vec<MissingPermission> {
    let clock = || sources.now();
    let at = Moment::of(&clock);
    let snapshot = Snapshot::of(sources, principal, Some(server));
    let assessment = snapshot.assessment(Some(server), tool, snapshot.known(tool));
    let needed = assessment.permissions.as_slice();
    let server = Some(server);
    let Some(view) = snapshot.permissions_for(server, needed) else {
        return Vec::new();
    };
    let is_of_tools = &|permission: &Permission| snapshot.is_of_tools(permission);
    let need = PermissionNeed {
        principal,
        server,
        tool,
        needed,
        arguments: None,
        any_arguments: true,
        definition: None,
        at: at.get(),
        is_of_tools,
    };
    view.missing(&need, &snapshot.policy(server))
}
