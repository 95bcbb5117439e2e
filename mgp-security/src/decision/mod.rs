//! The decision of all layers about a tool call: it is allowed, refused, or needs an answer first (MGP §3–§5).
//!
//! The [gate](crate::gate) calls [`decide`] before each call and again after each wait; previews and rechecks run the
//! same checks. A decision asks nothing and records nothing. [`Snapshot`] describes the state that it reads, and when.
//! `CallDecision::apply_rules` calls the checks, which are in `checks/`, in the order of [`Stage`].
//!
//! Lists of tools are filtered by the first two stages only, access and definition, with the same functions:
//! `AccessView::judge`, and the state of the definition (see `gate/list.rs`).

mod checks;
mod facts;
mod snapshot;
mod steps;
#[cfg(test)]
mod tests;
mod verdict;

use std::sync::Arc;

use crate::tool::Assessment;

use checks::may_be_granted;
pub(crate) use checks::{admit, judge_permissions, lacked_permissions, missing, see};
pub(crate) use facts::{CallFacts, CallPreparations, ConfirmedTool};
pub(crate) use snapshot::{ServerName, Snapshot, Sources, ToolOrigin};
use steps::{Steps, Stopped};
use verdict::Findings;
pub use verdict::{CallOutcome, CallVerdict, Requirement, Stage, Step, StepResult};

/// Decides about a call, with a snapshot of the rules.
#[inline]
pub(crate) fn decide(facts: &CallFacts<'_>, snapshot: &Snapshot<'_>) -> CallVerdict {
    let mut decision = CallDecision::<false>::new(facts, snapshot);
    let outcome = outcome_of(decision.apply_rules());
    CallVerdict::new(outcome, decision.findings, decision.steps.into_list())
}

/// Decides about a call as [`decide`] does, and lists each rule that was considered. If permissions must be decided
/// first, the list also contains the rule about confirmation, although that rule applies only afterwards.
pub(crate) fn explain(facts: &CallFacts<'_>, snapshot: &Snapshot<'_>) -> CallVerdict {
    let mut decision = CallDecision::<true>::new(facts, snapshot);
    let outcome = outcome_of(decision.apply_rules());
    if let CallOutcome::Ask(Requirement::Permissions(_)) = &outcome
        && let Some(assessment) = decision.findings.assessment.clone()
    {
        // Called only to record this rule: the permissions must be decided first, so the outcome does not matter here.
        let _ = decision.check_confirmation(&assessment, None);
    }
    CallVerdict::new(outcome, decision.findings, decision.steps.into_list())
}

/// Returns the outcome that a call with valid arguments would have if the server had all permissions: the call is
/// allowed, or must be confirmed.
pub(crate) fn after_permissions(
    facts: &CallFacts<'_>,
    snapshot: &Snapshot<'_>,
    assessment: &Assessment,
) -> CallOutcome {
    outcome_of(CallDecision::<false>::new(facts, snapshot).check_confirmation(assessment, None))
}

fn outcome_of(passed: Result<(), Stopped>) -> CallOutcome {
    passed.err().map_or(CallOutcome::Allow, Stopped::into_inner)
}

/// One decision about a call: its inputs, and the findings of the checks so far. `EXPLAINS` is `true` if the decision
/// also lists its steps for an explanation.
struct CallDecision<'a, 's, const EXPLAINS: bool> {
    facts: &'a CallFacts<'a>,
    snapshot: &'a Snapshot<'s>,
    findings: Findings,
    steps: Steps<EXPLAINS>,
}

impl<'a, 's, const EXPLAINS: bool> CallDecision<'a, 's, EXPLAINS> {
    #[inline]
    fn new(facts: &'a CallFacts<'a>, snapshot: &'a Snapshot<'s>) -> Self {
        Self { facts, snapshot, findings: Findings::default(), steps: Steps::default() }
    }

    /// Applies the rules in order; stops at the first check that refuses the call or needs an answer.
    #[inline]
    fn apply_rules(&mut self) -> Result<(), Stopped> {
        let Self { facts, snapshot, .. } = *self;
        self.check_access()?;
        let known = snapshot.known(facts.tool);
        self.check_definition(known)?;
        #[cfg(feature = "schemas")]
        self.check_schema(known)?;
        if !snapshot.assesses(facts) {
            return Ok(());
        }
        let assessment = snapshot.assessment(facts.tool, known);
        self.findings.assessment = Some(Arc::clone(&assessment));
        self.check_scopes(&assessment)?;
        let judgement = self.judge_permissions(&assessment)?;
        let judgement = judgement.as_ref();
        let permitted = self.check_permissions(&assessment, judgement);
        // The validators also run if approvers can still grant the missing permissions, so that no person is asked
        // about a call that a validator refuses.
        if judgement.is_none_or(may_be_granted) {
            self.run_validators(&assessment, judgement)?;
        }
        self.check_confirmation(&assessment, permitted?)
    }
}
