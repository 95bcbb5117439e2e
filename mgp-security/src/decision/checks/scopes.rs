//! The check of the scopes that the tool requires (extension `scopes`).

use crate::decision::{CallDecision, Passed, Stage, Stopped};
use crate::error::Refusal;
use crate::scope::{HeldScopes, ScopesMissing, covers};
use crate::tool::Assessment;

impl<const EXPLAINS: bool> CallDecision<'_, '_, EXPLAINS> {
    /// Checks that the call has the scopes that the tool requires. Only calls in sessions with limited scopes carry
    /// scopes.
    pub(in crate::decision) fn check_scopes(
        &mut self,
        assessment: &Assessment,
    ) -> Result<Passed, Stopped> {
        let facts = self.facts;
        let held = facts.call.cx().extensions.get::<HeldScopes>();
        let Some(HeldScopes(held)) = held else { return Ok(Passed::NO_RULE) };
        let held = held.as_ref().map_err(|ended| self.steps.refuse(Stage::Scopes, *ended))?;
        let is_held = |scope: &&String| covers(held, scope);
        let required = &assessment.required_scopes;
        let passed = self.steps.pass(Stage::Scopes, required.iter().filter(is_held));
        let missing: Vec<String> =
            required.iter().filter(|scope| !is_held(scope)).cloned().collect();
        if missing.is_empty() {
            return Ok(passed);
        }
        let rules = missing.clone();
        let refused = ScopesMissing::new(facts.tool, missing, &facts.call.cx().caller);
        let refused = Refusal::Scopes(Box::new(refused));
        Err(self.steps.refuse_by(Stage::Scopes, rules, refused).into())
    }
}
