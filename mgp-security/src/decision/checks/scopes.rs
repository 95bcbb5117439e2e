//! The check of the scopes that the tool requires (extension `scopes`).

use crate::decision::{CallDecision, CallOutcome, Recorder, Stage, StepResult};
use crate::error::Refusal;
use crate::scope::{HeldScopes, ScopesMissing};
use crate::tool::Assessment;

impl<R: Recorder> CallDecision<'_, '_, R> {
    /// Checks that the call has the scopes that the tool requires. Only calls in sessions with limited scopes carry
    /// scopes.
    pub(in crate::decision) fn check_scopes(
        &mut self,
        assessment: &Assessment,
    ) -> Result<(), CallOutcome> {
        let facts = self.facts;
        let Some(held) = facts.call.cx().extensions.get::<HeldScopes>() else { return Ok(()) };
        let missing = held.missing(&assessment.required_scopes).map_err(|ended| {
            self.steps.add(Stage::Scopes, StepResult::Refused, || ended.to_string());
            Refusal::from(ended)
        })?;
        for scope in &assessment.required_scopes {
            let is_held = !missing.contains(scope);
            let result = if is_held { StepResult::Passed } else { StepResult::Refused };
            self.steps.add(Stage::Scopes, result, || scope.clone());
        }
        if missing.is_empty() {
            return Ok(());
        }
        Err(Refusal::Scopes(Box::new(ScopesMissing::new(facts.tool, missing))).into())
    }
}
