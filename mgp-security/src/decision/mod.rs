//! The decision of all layers about a tool call: it is allowed, refused, or needs an answer first (MGP §3–§5).
//!
//! The [gate](crate::gate) calls [`decide`] before each call and again after each wait. Previews call [`explain`],
//! which runs the same checks. A decision asks nothing and records nothing. [`RuleState`] describes the state that it
//! reads, and when. `CallDecision::apply_rules` calls the checks, which are in `checks/`, in the order of [`Stage`].
//!
//! Lists of tools are filtered by the first two stages only, access and definition, with the same functions:
//! `AccessView::judge`, and the state of the definition (see `gate/list.rs`).

mod checks;
mod facts;
mod rule_state;
mod steps;
#[cfg(test)]
mod tests;
mod verdict;

use std::sync::Arc;

use mgp_types::service::Call;

use crate::access::Moment;
use crate::tool::Assessment;

pub(crate) use checks::{ListingState, admit, judge_permissions, missing, see};
use facts::CallFacts;
pub(crate) use facts::{CallAnswers, CallPreparations, ConfirmedTool};
use rule_state::RuleState;
pub(crate) use rule_state::{ServerName, Sources, ToolOrigin};
use steps::{Passed, Steps, Stopped};
use verdict::Findings;
pub use verdict::{CallOutcome, CallVerdict, Requirement, Stage, Step, StepResult};

/// Decides about a call by the current rules.
#[inline]
pub(crate) fn decide(
    sources: &Sources,
    call: &Call,
    preparations: &CallPreparations,
) -> CallVerdict {
    reach_verdict::<false>(sources, call, preparations)
}

/// Decides about a call as [`decide`] does, and lists each rule that was considered. If permissions must be decided
/// first, the list also contains the rule about confirmation, although that rule applies only afterwards.
pub(crate) fn explain(
    sources: &Sources,
    call: &Call,
    preparations: &CallPreparations,
) -> CallVerdict {
    reach_verdict::<true>(sources, call, preparations)
}

#[inline]
fn reach_verdict<const EXPLAINS: bool>(
    sources: &Sources,
    call: &Call,
    preparations: &CallPreparations,
) -> CallVerdict {
    with_facts(sources, call, preparations, |facts, state| {
        let mut decision = CallDecision::<EXPLAINS>::new(facts, state);
        let outcome = outcome_of(decision.apply_rules());
        CallVerdict::new(outcome, decision.findings, decision.steps.into_list())
    })
}

/// Returns whether a person must confirm a call, if its arguments are valid and the server has all permissions.
pub(crate) fn must_be_confirmed(
    sources: &Sources,
    call: &Call,
    preparations: &CallPreparations,
    assessment: &Assessment,
) -> bool {
    with_facts(sources, call, preparations, |facts, state| {
        let mut decision = CallDecision::<false>::new(facts, state);
        let outcome = outcome_of(decision.check_confirmation(assessment, None));
        matches!(outcome, CallOutcome::Ask(_))
    })
}

/// Calls a function with a tool call and everything that a decision about the call depends on, and with the current
/// rules.
#[inline]
fn with_facts<T>(
    sources: &Sources,
    call: &Call,
    preparations: &CallPreparations,
    look: impl FnOnce(&CallFacts<'_>, &RuleState<'_>) -> T,
) -> T {
    let (tool, arguments) = call.tool().map_or(("", None), |tool| (tool.name, tool.arguments));
    let server = sources.server_of(call.cx());
    let clock = || sources.now();
    let at = Moment::of(&clock);
    let state = RuleState::of(sources, &call.cx().principal, server);
    look(&CallFacts { call, server, tool, arguments, at: &at, preparations }, &state)
}

fn outcome_of(passed: Result<Passed, Stopped>) -> CallOutcome {
    passed.err().map_or(CallOutcome::Allow, Stopped::into_inner)
}

/// One decision about a call: its inputs, and the findings of the checks so far. `EXPLAINS` is `true` if the decision
/// also lists its steps for an explanation.
struct CallDecision<'a, 's, const EXPLAINS: bool> {
    facts: &'a CallFacts<'a>,
    state: &'a RuleState<'s>,
    findings: Findings,
    steps: Steps<EXPLAINS>,
}

impl<'a, 's, const EXPLAINS: bool> CallDecision<'a, 's, EXPLAINS> {
    #[inline]
    fn new(facts: &'a CallFacts<'a>, state: &'a RuleState<'s>) -> Self {
        Self { facts, state, findings: Findings::default(), steps: Steps::default() }
    }

    /// Applies the rules in order; stops at the first check that refuses the call or needs an answer. The section
    /// “Order of the decision” in `docs/governance.md` has the reason for the place of each check.
    #[inline]
    fn apply_rules(&mut self) -> Result<Passed, Stopped> {
        let Self { facts, state, .. } = *self;
        self.check_access()?;
        let known = state.known(facts.tool);
        self.check_definition(known)?;
        #[cfg(feature = "schemas")]
        self.check_schema(known)?;
        if !state.assesses(facts) {
            return Ok(Passed::NO_RULE);
        }
        let assessment = state.assessment(facts.tool, known);
        self.findings.assessment = Some(Arc::clone(&assessment));
        self.check_scopes(&assessment)?;
        let judgement = self.judge_permissions(&assessment)?;
        // Return this result only after the validators, so that no person is asked for permissions for a call that a
        // validator refuses. If the permissions cannot be granted, the call is refused anyway, without validators.
        let permission_result = self.check_permissions(&assessment, &judgement);
        if judgement.may_be_granted() {
            self.run_validators(&assessment, &judgement)?;
            if EXPLAINS && permission_result.is_err() {
                // Called only to record this rule: the outcome is the question about the permissions.
                let _ = self.check_confirmation(&assessment, None);
            }
        }
        permission_result?;
        self.check_confirmation(&assessment, judgement.doubt.as_ref())
    }
}
