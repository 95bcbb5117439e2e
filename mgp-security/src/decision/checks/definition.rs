//! The check of the tool's definition, compared with the approved one (§4).

use std::sync::Arc;

use crate::decision::{CallDecision, CallOutcome, Recorder, Requirement, Stage, StepResult};
use crate::definition::{DefinitionRefused, DefinitionRule, KnownTool};
use crate::error::Refusal;

impl<R: Recorder> CallDecision<'_, '_, R> {
    #[inline]
    pub(in crate::decision) fn check_definition(
        &mut self,
        known: Option<&Arc<KnownTool>>,
    ) -> Result<(), CallOutcome> {
        let Self { facts, snapshot, .. } = *self;
        let Some(server) = facts.server else { return Ok(()) };
        let Some(rule) = snapshot.definition_rule(server, known, facts.preparations) else {
            return Ok(());
        };
        let rule = rule.map_err(|error| {
            self.steps.add(Stage::Definition, StepResult::Refused, || error.to_string());
            Refusal::Unchanged(error.into())
        })?;
        let (tool, principal) = (facts.tool, &facts.call.cx().principal);
        let refused = match rule {
            DefinitionRule::Record if facts.preparations.recorded => None,
            DefinitionRule::Record => {
                let why = || "an event must record the operator's risk for it first".to_owned();
                self.steps.add(Stage::Definition, StepResult::Asks, why);
                return Err(CallOutcome::Ask(Requirement::RiskRecord));
            }
            DefinitionRule::Refuse(state) => {
                Some(DefinitionRefused::new(server, tool, state, principal))
            }
            DefinitionRule::List if !facts.preparations.listed => {
                let why = || "the tools of the server must be listed first".to_owned();
                self.steps.add(Stage::Definition, StepResult::Asks, why);
                return Err(CallOutcome::Ask(Requirement::Listing));
            }
            // The definition of the tool is being updated, so refuse with an error after which the caller can retry.
            DefinitionRule::List if known.is_some_and(|known| known.is_listed()) => {
                Some(DefinitionRefused::unsettled(server, tool, principal))
            }
            DefinitionRule::Allow | DefinitionRule::List => None,
        };
        let Some(refused) = refused else {
            let state = || snapshot.definition_state(server, tool).to_owned();
            self.steps.add(Stage::Definition, StepResult::Passed, state);
            return Ok(());
        };
        self.steps.add(Stage::Definition, StepResult::Refused, || refused.to_string());
        Err(Refusal::from(refused).into())
    }
}
