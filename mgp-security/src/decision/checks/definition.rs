//! The check of the tool's definition, compared with the approved one (§4).

use std::iter::once_with;
use std::sync::Arc;

use crate::decision::{CallDecision, Requirement, Stage, Stopped};
use crate::definition::{DefinitionRefused, DefinitionRule, KnownTool};
use crate::error::Refusal;

impl<const EXPLAINS: bool> CallDecision<'_, '_, EXPLAINS> {
    #[inline]
    pub(in crate::decision) fn check_definition(
        &mut self,
        known: Option<&Arc<KnownTool>>,
    ) -> Result<(), Stopped> {
        let Self { facts, snapshot, .. } = *self;
        let Some(server) = facts.server else { return Ok(()) };
        let Some(rule) = snapshot.definition_rule(server, known, facts.preparations) else {
            return Ok(());
        };
        let rule = rule.map_err(|error| {
            self.steps.refuse(Stage::Definition, Refusal::Unchanged(error.into()))
        })?;
        let (tool, principal) = (facts.tool, &facts.call.cx().principal);
        let refused = match rule {
            DefinitionRule::Record if !facts.preparations.recorded => {
                let why = ["an event must first record the risk that the operator set"];
                return Err(self.steps.ask(Stage::Definition, why, Requirement::RiskRecord));
            }
            DefinitionRule::List if !facts.preparations.listed => {
                let why = ["the tools of the server must first be listed"];
                return Err(self.steps.ask(Stage::Definition, why, Requirement::Listing));
            }
            DefinitionRule::Refuse(state) => DefinitionRefused::new(server, tool, state, principal),
            // The definition of the tool is being updated, so refuse with an error after which the caller can retry.
            DefinitionRule::List if known.is_some_and(|known| known.is_listed()) => {
                DefinitionRefused::unsettled(server, tool, principal)
            }
            DefinitionRule::Allow | DefinitionRule::Record | DefinitionRule::List => {
                let state = once_with(|| snapshot.definition_state(server, tool));
                self.steps.pass(Stage::Definition, state);
                return Ok(());
            }
        };
        Err(self.steps.refuse(Stage::Definition, refused).into())
    }
}
