//! The check of the tool's definition, compared with the approved one (§4).

use std::iter::once_with;
use std::sync::Arc;

use mgp_types::service::ServerId;
use mgp_types::store::StoreError;

use crate::decision::{
    CallDecision, CallPreparations, Passed, Requirement, RuleState, Stage, Stopped, ToolOrigin,
};
use crate::definition::{DefinitionRefused, DefinitionRule, Definitions, KnownTool};
use crate::error::Refusal;

/// The state of the listing of a server's tools for one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListingState {
    /// The tools are listed if their definitions might have changed. This state returns when a person has decided
    /// about the call, because the server can announce changes meanwhile.
    #[default]
    Open,
    /// The tools were listed for this call, so they are not listed again.
    Done,
    /// The call has waited and is decided about once more, immediately before it runs. The tools are not listed again.
    /// If the server had announced changes but listed the same tools again, its further announcements do not count.
    Last,
}

impl<const EXPLAINS: bool> CallDecision<'_, '_, EXPLAINS> {
    #[inline]
    pub(in crate::decision) fn check_definition(
        &mut self,
        known: Option<&Arc<KnownTool>>,
    ) -> Result<Passed, Stopped> {
        let Self { facts, state, .. } = *self;
        let Some(server) = facts.server else { return Ok(Passed::NO_RULE) };
        let Some(definitions) = &state.sources.definitions else { return Ok(Passed::NO_RULE) };
        let known = known.map(|known| &**known);
        let rule = self.definition_rule(definitions, server, known).map_err(|error| {
            self.steps.refuse(Stage::Definition, Refusal::Unchanged(error.into()))
        })?;
        let (tool, principal) = (facts.tool, &facts.call.cx().principal);
        let refused = match rule {
            DefinitionRule::Record if !facts.preparations.skips_record => {
                let why = ["an event must first record the risk that the operator set"];
                return Err(self.steps.ask(Stage::Definition, why, Requirement::RiskRecord));
            }
            DefinitionRule::List if facts.preparations.listing == ListingState::Open => {
                let why = ["the tools of the server must first be listed"];
                return Err(self.steps.ask(Stage::Definition, why, Requirement::Listing));
            }
            DefinitionRule::Refuse(state) => DefinitionRefused::new(server, tool, state, principal),
            // The definition of the tool is being updated, so refuse with an error after which the caller can retry.
            DefinitionRule::List if known.is_some_and(KnownTool::is_listed) => {
                DefinitionRefused::unsettled(server, tool, principal)
            }
            DefinitionRule::Allow | DefinitionRule::Record | DefinitionRule::List => {
                let name = once_with(|| state.definition_state(server, tool));
                return Ok(self.steps.pass(Stage::Definition, name));
            }
        };
        Err(self.steps.refuse(Stage::Definition, refused).into())
    }

    /// Returns the rule that applies to the definition of a tool.
    #[inline]
    fn definition_rule(
        &self,
        definitions: &Definitions,
        server: &ServerId,
        known: Option<&KnownTool>,
    ) -> Result<DefinitionRule, StoreError> {
        let RuleState { sources, tools, .. } = self.state;
        if sources.origin == ToolOrigin::Own {
            // Tools of this process are trusted. Only an operator's override of their risk has to be recorded.
            let records =
                known.is_some_and(KnownTool::is_unrecorded) && definitions.readable().is_ok();
            let rule = tools.as_ref().filter(|_| records).map(|tools| tools.rule(known));
            let must_record = matches!(rule, Some(DefinitionRule::Record));
            return Ok(if must_record { DefinitionRule::Record } else { DefinitionRule::Allow });
        }
        definitions.readable()?;
        let Some(tools) = tools else { return Ok(DefinitionRule::List) };
        let CallPreparations { listing, answers, .. } = self.facts.preparations;
        let is_settled = || {
            (*listing == ListingState::Last && (answers.settled.is_some() || tools.is_noisy))
                || answers.settled == Some(definitions.announcements(server))
        };
        Ok(match tools.rule(known) {
            DefinitionRule::List if is_settled() => tools.rule_of_current(known),
            rule => rule,
        })
    }
}
