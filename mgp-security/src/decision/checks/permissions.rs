//! The check of the permissions that the call needs from its server (§3).

use std::iter::once_with;

use mgp_types::mgp::Permission;
use mgp_types::service::{Principal, ServerId};
use mgp_types::store::StoreError;

use crate::access::Moment;
use crate::decision::{CallDecision, CallFacts, Requirement, Snapshot, Sources, Stage, Stopped};
use crate::permission::{
    AskOutcomes, MissingPermission, PermissionJudgement, PermissionNeed, PermissionRefused,
};
use crate::tool::Assessment;

impl<const EXPLAINS: bool> CallDecision<'_, '_, EXPLAINS> {
    /// Judges the permissions of the call; returns `None` if it needs none. Refuses the call if the stored permissions
    /// cannot be read.
    pub(in crate::decision) fn judge_permissions(
        &mut self,
        assessment: &Assessment,
    ) -> Result<Option<PermissionJudgement>, Stopped> {
        let judged = judge_permissions(self.facts, self.snapshot, assessment).transpose();
        judged.map_err(|error| {
            let refused = Box::new(PermissionRefused::unreadable(&error));
            let rule = once_with(|| error.to_string());
            self.steps.refuse_by(Stage::Permissions, rule, refused).into()
        })
    }

    /// Checks that the call has its permissions, which were judged before. Returns a permission whose limits the call
    /// may exceed, if there is one.
    pub(in crate::decision) fn check_permissions<'j>(
        &mut self,
        assessment: &Assessment,
        judgement: Option<&'j PermissionJudgement>,
    ) -> Result<Option<&'j MissingPermission>, Stopped> {
        let Some(judgement) = judgement else { return Ok(None) };
        let is_asked = self.facts.preparations.asked.is_some();
        if judgement.missing.is_empty() && (is_asked || !judgement.to_record) {
            let names = assessment.permissions.iter().map(Permission::as_str);
            self.steps.pass(Stage::Permissions, names);
        } else if self.is_granted_for_call(judgement) {
            self.steps.pass(Stage::Permissions, ["granted for this call"]);
        } else {
            return Err(self.ask_or_refuse(judgement));
        }
        Ok(judgement.doubt.as_ref())
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
    fn ask_or_refuse(&mut self, judgement: &PermissionJudgement) -> Stopped {
        let CallFacts { server, tool, preparations, .. } = *self.facts;
        let missing = judgement.missing.clone();
        let whys =
            judgement.missing.iter().map(|lack| format!("{}: {}", lack.permission, lack.why));
        if may_be_granted(judgement) && preparations.asked.is_none() {
            let record =
                missing.is_empty().then_some("an event must first record what the policy grants");
            let whys = whys.chain(record.into_iter().map(str::to_owned));
            return self.steps.ask(Stage::Permissions, whys, Requirement::Permissions(missing));
        }
        let none = AskOutcomes::default();
        let refused = preparations.asked.as_ref().unwrap_or(&none).refuse(server, tool, missing);
        self.steps.refuse_by(Stage::Permissions, whys, Box::new(refused)).into()
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
    let view = snapshot.permissions_for(needed)?;
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
    Some(view.judge(&need, &snapshot.policy()))
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
    let assessment = snapshot.assessment(tool, snapshot.known(tool));
    let needed = assessment.permissions.as_slice();
    let Some(view) = snapshot.permissions_for(needed) else { return Vec::new() };
    let is_of_tools = &|permission: &Permission| snapshot.is_of_tools(permission);
    let need = PermissionNeed {
        principal,
        server: Some(server),
        tool,
        needed,
        arguments: None,
        any_arguments: true,
        definition: None,
        at: at.get(),
        is_of_tools,
    };
    view.missing(&need, &snapshot.policy())
}
