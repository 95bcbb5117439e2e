//! The check of the permissions that the call needs from its server (§3).

use std::iter::once_with;

use mgp_types::mgp::Permission;
use mgp_types::service::{Call, Principal, ServerId};
use mgp_types::store::StoreError;

use crate::decision::{
    CallDecision, CallFacts, CallPreparations, Passed, Requirement, RuleState, Sources, Stage,
    Stopped, with_facts,
};
use crate::permission::{
    AskOutcomes, MissingPermission, PermissionJudgement, PermissionNeed, PermissionRefused,
};
use crate::tool::Assessment;

impl<const EXPLAINS: bool> CallDecision<'_, '_, EXPLAINS> {
    /// Judges the permissions of the call. Refuses the call if the stored permissions cannot be read.
    pub(in crate::decision) fn judge_permissions(
        &mut self,
        assessment: &Assessment,
    ) -> Result<PermissionJudgement, Stopped> {
        judge(self.facts, self.state, assessment).map_err(|error| {
            let refused = Box::new(PermissionRefused::unreadable(&error));
            let rule = once_with(|| error.to_string());
            self.steps.refuse_by(Stage::Permissions, rule, refused).into()
        })
    }

    /// Checks that the call has its permissions, which were judged before.
    pub(in crate::decision) fn check_permissions(
        &mut self,
        assessment: &Assessment,
        judgement: &PermissionJudgement,
    ) -> Result<Passed, Stopped> {
        if self.state.sources.permissions.is_none() {
            return Ok(Passed::NO_RULE);
        }
        let is_asked = self.facts.preparations.asked.is_some();
        if judgement.missing.is_empty() && (is_asked || !judgement.to_record) {
            let names = assessment.permissions.iter().map(Permission::as_str);
            return Ok(self.steps.pass(Stage::Permissions, names));
        }
        if self.is_granted_for_call(judgement) {
            return Ok(self.steps.pass(Stage::Permissions, ["granted for this call"]));
        }
        Err(self.ask_or_refuse(judgement))
    }

    /// Returns whether a person granted the missing permissions for this call, or for similar calls.
    fn is_granted_for_call(&self, judgement: &PermissionJudgement) -> bool {
        let Self { facts, state, .. } = *self;
        let lacks_none = |granted: &[Permission]| {
            judgement.missing.iter().all(|missing| granted.contains(&missing.permission))
        };
        judgement.may_ask
            && (lacks_none(&facts.preparations.answers.granted)
                || state.approved(facts, |call| lacks_none(&call.permissions)).is_some())
    }

    /// Returns the question about the missing permissions, or the refusal if approvers cannot be asked or were already
    /// asked.
    fn ask_or_refuse(&mut self, judgement: &PermissionJudgement) -> Stopped {
        let CallFacts { server, tool, preparations, .. } = *self.facts;
        let missing = judgement.missing.clone();
        let whys =
            judgement.missing.iter().map(|lack| format!("{}: {}", lack.permission, lack.why));
        if judgement.may_be_granted() && preparations.asked.is_none() {
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

/// Judges the permissions of a call by the current rules.
///
/// # Errors
/// [`StoreError`] while the stored permissions cannot be read.
pub(crate) fn judge_permissions(
    sources: &Sources,
    call: &Call,
    preparations: &CallPreparations,
    assessment: &Assessment,
) -> Result<PermissionJudgement, StoreError> {
    with_facts(sources, call, preparations, |facts, state| judge(facts, state, assessment))
}

fn judge(
    facts: &CallFacts<'_>,
    state: &RuleState<'_>,
    assessment: &Assessment,
) -> Result<PermissionJudgement, StoreError> {
    let needed = assessment.permissions.as_slice();
    let Some(view) = state.permissions_for(needed) else {
        return Ok(PermissionJudgement::NOTHING_NEEDED);
    };
    let need = PermissionNeed {
        principal: &facts.call.cx().principal,
        server: facts.server,
        tool: facts.tool,
        needed,
        arguments: facts.arguments,
        any_arguments: facts.preparations.any_arguments,
        definition: state.definition(facts.tool),
        at: facts.at.get(),
        tools: state.tools.as_deref(),
    };
    view.judge(&need, &state.policy())
}

/// Returns the permissions that are missing for every call of a tool, whatever its arguments.
pub(crate) fn missing(
    sources: &Sources,
    principal: &Principal,
    server: &ServerId,
    tool: &str,
) -> Vec<MissingPermission> {
    let state = RuleState::of(sources, principal, Some(server));
    let assessment = state.assessment(tool, state.known(tool));
    let needed = assessment.permissions.as_slice();
    let Some(view) = state.permissions_for(needed) else { return Vec::new() };
    let need = PermissionNeed {
        principal,
        server: Some(server),
        tool,
        needed,
        arguments: None,
        any_arguments: true,
        definition: None,
        at: sources.now(),
        tools: state.tools.as_deref(),
    };
    view.missing(&need, &state.policy())
}
