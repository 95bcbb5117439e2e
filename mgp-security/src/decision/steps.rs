//! The steps of a decision: the rules that it considers, each with the result. A check gets its result, [`Passed`] or
//! [`Stopped`], from the method that records the step, so that an explanation cannot disagree with the decision.

use std::iter::once_with;

use super::{CallOutcome, Requirement, Stage, Step, StepResult};
use crate::error::Refusal;

/// Descriptions of rules, which are built only for an explanation.
pub(super) trait RuleTexts: IntoIterator<Item: Into<String>> {}

impl<R: IntoIterator<Item: Into<String>>> RuleTexts for R {}

/// The considered rules; empty unless `EXPLAINS` is `true`. This is known at compile time, so that decisions about real
/// calls contain no code for explanations.
#[derive(Default)]
pub(super) struct Steps<const EXPLAINS: bool>(Vec<Step>);

/// The result of a check whose rules do not object to the call.
pub(super) struct Passed(());

impl Passed {
    /// The result of a check that has no rule about the call and records no step. As any check can return this value,
    /// `Passed` does not prove that a rule was considered.
    pub(super) const NO_RULE: Self = Self(());
}

/// The reason why a check stops a call: a refusal, or a question to a person. A `Stopped<Refusal>` is always a refusal.
/// Only [`Steps`] creates this type, so each check that stops a call records a step.
#[must_use]
pub(super) struct Stopped<T = CallOutcome>(T);

impl<const EXPLAINS: bool> Steps<EXPLAINS> {
    pub(super) fn pass(&mut self, stage: Stage, rules: impl RuleTexts) -> Passed {
        self.add(stage, StepResult::Passed, rules);
        Passed(())
    }

    pub(super) fn ask(
        &mut self,
        stage: Stage,
        rules: impl RuleTexts,
        need: Requirement,
    ) -> Stopped {
        self.add(stage, StepResult::Asks, rules);
        Stopped(CallOutcome::Ask(need))
    }

    /// Refuses a call; the text of the refusal also describes the rule in the step.
    pub(super) fn refuse(&mut self, stage: Stage, refusal: impl Into<Refusal>) -> Stopped<Refusal> {
        let refusal = refusal.into();
        self.add(stage, StepResult::Refused, once_with(|| refusal.to_string()));
        Stopped(refusal)
    }

    /// Refuses a call; `rules` describe the rules in the steps, and not the text of the refusal.
    pub(super) fn refuse_by(
        &mut self,
        stage: Stage,
        rules: impl RuleTexts,
        refusal: impl Into<Refusal>,
    ) -> Stopped<Refusal> {
        self.add(stage, StepResult::Refused, rules);
        Stopped(refusal.into())
    }

    fn add(&mut self, stage: Stage, result: StepResult, rules: impl RuleTexts) {
        if EXPLAINS {
            let is_in_order = self.0.last().is_none_or(|last| last.stage <= stage);
            debug_assert!(is_in_order, "the stage {stage} comes too late");
            self.0.extend(rules.into_iter().map(|rule| Step { stage, result, rule: rule.into() }));
        }
    }

    pub(super) fn into_list(self) -> Vec<Step> {
        self.0
    }
}

impl<T> Stopped<T> {
    pub(super) fn into_inner(self) -> T {
        self.0
    }
}

impl From<Stopped<Refusal>> for Stopped {
    fn from(refused: Stopped<Refusal>) -> Self {
        Self(refused.0.into())
    }
}
