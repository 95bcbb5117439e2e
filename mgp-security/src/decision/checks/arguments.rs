//! The checks of the arguments: by the schema of the tool, and by validators (§4.5).

#[cfg(feature = "schemas")]
use std::sync::Arc;

use mgp_types::mgp::Validator;

use crate::decision::{CallDecision, CallFacts, Passed, Stage, Stopped};
#[cfg(feature = "schemas")]
use crate::definition::KnownTool;
use crate::error::Refusal;
use crate::permission::PermissionJudgement;
use crate::tool::Assessment;

impl<const EXPLAINS: bool> CallDecision<'_, '_, EXPLAINS> {
    /// Checks the arguments against the input schema of the tool, if the server's policy requires it.
    #[cfg(feature = "schemas")]
    pub(in crate::decision) fn check_schema(
        &mut self,
        known: Option<&Arc<KnownTool>>,
    ) -> Result<Passed, Stopped> {
        let facts = self.facts;
        let known = known.filter(|_| !facts.preparations.any_arguments);
        match known.and_then(|known| known.check_arguments(facts.arguments)) {
            None => Ok(Passed::NO_RULE),
            Some(Ok(())) => Ok(self.steps.pass(Stage::Schema, ["no argument violates the schema"])),
            Some(Err(refused)) => {
                Err(self.steps.refuse(Stage::Schema, Refusal::Arguments(refused)).into())
            }
        }
    }

    /// Runs the validators of the tool. `judgement` is the judgement about the permissions of the call.
    pub(in crate::decision) fn run_validators(
        &mut self,
        assessment: &Assessment,
        judgement: &PermissionJudgement,
    ) -> Result<Passed, Stopped> {
        let Self { facts, state, .. } = *self;
        if assessment.validators.is_empty() || facts.preparations.any_arguments {
            return Ok(Passed::NO_RULE);
        }
        let Some(validators) = &state.sources.validators else { return Ok(Passed::NO_RULE) };
        let call = (facts.call, facts.server, facts.tool);
        let definition = state.definition(facts.tool);
        let policy = state.policy();
        let limits_paths = are_paths_limited(facts, assessment, judgement);
        let validation = validators.check(call, assessment, definition, &policy, limits_paths);
        let names = validation.applied[..validation.passed].iter().map(Validator::as_str);
        let passed = self.steps.pass(Stage::Validators, names);
        self.findings.set_applied(validation.applied);
        let Some(blocked) = validation.blocked else { return Ok(passed) };
        Err(self.steps.refuse(Stage::Validators, Refusal::Blocked(blocked)).into())
    }
}

/// Returns whether a call contains the URL of a file, and a permission with limits on paths allows all paths of the
/// call. Returns `false` for a call without such a URL.
fn are_paths_limited(
    facts: &CallFacts<'_>,
    assessment: &Assessment,
    judgement: &PermissionJudgement,
) -> bool {
    let has_file = |arguments: &str| arguments.to_ascii_lowercase().contains("file:");
    assessment.validators.contains(&Validator::NetworkRestricted)
        && judgement.limits_paths
        && judgement.missing.is_empty()
        && facts.arguments.is_some_and(has_file)
}
