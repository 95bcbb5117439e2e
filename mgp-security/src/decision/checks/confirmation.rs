//! The check whether a person must confirm the call (§4.4).

use std::iter::once_with;

use crate::decision::{CallDecision, CallFacts, Passed, Requirement, Stage, Stopped};
use crate::permission::{AskOutcomes, MissingPermission};
use crate::tool::{Assessment, ConfirmRefused, NamedTool};

impl<const EXPLAINS: bool> CallDecision<'_, '_, EXPLAINS> {
    /// Checks whether a person must confirm the call: because of the tool's risk, or because an argument might exceed
    /// the limits of a permission, which `doubt` names.
    pub(in crate::decision) fn check_confirmation(
        &mut self,
        assessment: &Assessment,
        doubt: Option<&MissingPermission>,
    ) -> Result<Passed, Stopped> {
        let Self { facts, state, .. } = *self;
        let CallFacts { server, tool, preparations, .. } = *facts;
        let rule = once_with(|| {
            let risk = || format!("{} risk", assessment.effective_risk);
            doubt.map_or_else(risk, |doubt| format!("{}: {}", doubt.permission, doubt.why))
        });
        if state.sources.confirmations.is_none() {
            let Some(doubt) = doubt else { return Ok(Passed::NO_RULE) };
            let refused = AskOutcomes::default().refuse(server, tool, vec![doubt.clone()]);
            return Err(self.steps.refuse_by(Stage::Confirmation, rule, Box::new(refused)).into());
        }
        let is_risky =
            || !assessment.is_harmless() && assessment.needs_confirmation(&state.policy(), None);
        if doubt.is_none() && !is_risky() {
            return Ok(self.steps.pass(Stage::Confirmation, rule));
        }
        let confirmed = &preparations.answers.confirmed;
        // The server's tools may have been listed again since the person confirmed. So compare the current definition
        // and risk with the confirmed definition and risk.
        if !confirmed.is_empty() && confirmed.contains(&state.confirmable(facts, assessment)) {
            return Ok(self.steps.pass(Stage::Confirmation, ["confirmed for this call"]));
        }
        if let Some(naming) = self.exemption(assessment, doubt.is_some()) {
            let passed = self.steps.pass(Stage::Confirmation, [naming.entry()]);
            self.findings.set_confirmation_spared_by(naming);
            return Ok(passed);
        }
        if confirmed.is_empty() {
            return Err(self.steps.ask(Stage::Confirmation, rule, Requirement::Confirmation));
        }
        let refused = ConfirmRefused::changed(server, tool, assessment);
        Err(self.steps.refuse(Stage::Confirmation, refused).into())
    }

    /// Returns the operator's entry that makes the confirmation unnecessary, or else the approval of an earlier call.
    /// For a call that might exceed the limits of a permission (`is_in_doubt`), only such an approval is enough.
    fn exemption(&self, assessment: &Assessment, is_in_doubt: bool) -> Option<NamedTool> {
        let Self { facts, state, .. } = *self;
        let policy = state.policy();
        let is_enough = |naming: &NamedTool| {
            !is_in_doubt && !assessment.needs_confirmation(&policy, Some(naming))
        };
        state.naming(facts).filter(is_enough).or_else(|| {
            let approval = state.approved(facts, |_| true)?;
            Some(NamedTool::by(format!("approval {} of {}", approval.id, approval.limits())))
        })
    }
}
