//! The check whether a person must confirm the call (§4.4).

use crate::decision::{
    CallDecision, CallFacts, CallOutcome, Recorder, Requirement, Stage, StepResult,
};
use crate::error::Refusal;
use crate::permission::{AskOutcomes, MissingPermission};
use crate::tool::{Assessment, ConfirmRefused, NamedTool};

impl<R: Recorder> CallDecision<'_, '_, R> {
    /// Checks whether a person must confirm the call: because of the tool's risk, or because an argument might exceed
    /// the limits of a permission, which `doubt` names.
    pub(in crate::decision) fn check_confirmation(
        &mut self,
        assessment: &Assessment,
        doubt: Option<&MissingPermission>,
    ) -> Result<(), CallOutcome> {
        let Self { facts, snapshot, .. } = *self;
        let CallFacts { server, tool, preparations, .. } = *facts;
        if !snapshot.confirms() {
            let Some(doubt) = doubt else { return Ok(()) };
            let refused = AskOutcomes::default().refuse(server, tool, vec![doubt.clone()]);
            return Err(Refusal::from(Box::new(refused)).into());
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
        let policy = snapshot.policy(server);
        let is_needed = |naming: Option<&NamedTool>| {
            doubt.is_some() || assessment.needs_confirmation(&policy, naming)
        };
        let risk = || {
            let risk = || format!("{} risk", assessment.effective_risk);
            doubt.map_or_else(risk, |doubt| format!("{}: {}", doubt.permission, doubt.why))
        };
        if !is_needed(None) {
            self.steps.add(Stage::Confirmation, StepResult::Passed, risk);
            return Ok(());
        }
        if let Some(naming) = snapshot.naming(facts).filter(|naming| !is_needed(Some(naming))) {
            let entry = || naming.entry().to_owned();
            self.steps.add(Stage::Confirmation, StepResult::Passed, entry);
            self.findings.set_confirmation_spared_by(naming);
            return Ok(());
        }
        if let Some(approval) = snapshot.approved(facts, |_| true) {
            let entry = format!("approval {} of {}", approval.id, approval.limits());
            self.steps.add(Stage::Confirmation, StepResult::Passed, || entry.clone());
            self.findings.set_confirmation_spared_by(NamedTool::by(entry));
            return Ok(());
        }
        if !confirmed.is_empty() {
            let refused = ConfirmRefused::changed(server, tool, assessment);
            self.steps.add(Stage::Confirmation, StepResult::Refused, || refused.to_string());
            return Err(Refusal::from(refused).into());
        }
        self.steps.add(Stage::Confirmation, StepResult::Asks, risk);
        Err(CallOutcome::Ask(Requirement::Confirmation))
    }
}
