//! The check whether a person must confirm the call (§4.4).

use std::iter::once_with;

use crate::decision::{CallDecision, CallFacts, Requirement, Stage, Stopped};
use crate::permission::{AskOutcomes, MissingPermission};
use crate::tool::{Assessment, ConfirmRefused, NamedTool};

impl<const EXPLAINS: bool> CallDecision<'_, '_, EXPLAINS> {
    /// Checks whether a person must confirm the call: because of the tool's risk, or because an argument might exceed
    /// the limits of a permission, which `doubt` names.
    pub(in crate::decision) fn check_confirmation(
        &mut self,
        assessment: &Assessment,
        doubt: Option<&MissingPermission>,
    ) -> Result<(), Stopped> {
        let Self { facts, snapshot, .. } = *self;
        let CallFacts { server, tool, preparations, .. } = *facts;
        let risk = once_with(|| {
            let risk = || format!("{} risk", assessment.effective_risk);
            doubt.map_or_else(risk, |doubt| format!("{}: {}", doubt.permission, doubt.why))
        });
        if !snapshot.confirms() {
            let Some(doubt) = doubt else { return Ok(()) };
            let refused = AskOutcomes::default().refuse(server, tool, vec![doubt.clone()]);
            return Err(self.steps.refuse_by(Stage::Confirmation, risk, Box::new(refused)).into());
        }
        if assessment.is_harmless() && doubt.is_none() {
            return Ok(());
        }
        let confirmed = &preparations.confirmed;
        // The server's tools may have been listed again since the person confirmed, so compare the current definition
        // and risk with the confirmed ones.
        if !confirmed.is_empty() && confirmed.contains(&snapshot.confirmable(facts, assessment)) {
            return Ok(());
        }
        if doubt.is_none() && !assessment.needs_confirmation(&snapshot.policy(), None) {
            self.steps.pass(Stage::Confirmation, risk);
            return Ok(());
        }
        if let Some(naming) = self.exemption(assessment, doubt.is_some()) {
            self.steps.pass(Stage::Confirmation, [naming.entry()]);
            self.findings.set_confirmation_spared_by(naming);
            return Ok(());
        }
        if confirmed.is_empty() {
            return Err(self.steps.ask(Stage::Confirmation, risk, Requirement::Confirmation));
        }
        let refused = ConfirmRefused::changed(server, tool, assessment);
        Err(self.steps.refuse(Stage::Confirmation, refused).into())
    }

    /// Returns the operator's entry that makes the confirmation unnecessary, or else the approval of an earlier call.
    /// For a call that might exceed the limits of a permission (`is_in_doubt`), only such an approval is enough.
    fn exemption(&self, assessment: &Assessment, is_in_doubt: bool) -> Option<NamedTool> {
        let Self { facts, snapshot, .. } = *self;
        let policy = snapshot.policy();
        let is_enough = |naming: &NamedTool| {
            !is_in_doubt && !assessment.needs_confirmation(&policy, Some(naming))
        };
        snapshot.naming(facts).filter(is_enough).or_else(|| {
            let approval = snapshot.approved(facts, |_| true)?;
            Some(NamedTool::by(format!("approval {} of {}", approval.id, approval.limits())))
        })
    }
}
