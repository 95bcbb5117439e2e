//! Recorders of the rules that a decision considers: one lists them for explanations, the other discards them.

use super::{Stage, Step, StepResult};

/// A recorder of the rules that are considered. Each description is passed as a closure, so that it is built only if
/// the recorder stores it.
pub(super) trait Recorder {
    fn add(&mut self, stage: Stage, result: StepResult, rule: impl FnOnce() -> String);
}

/// A recorder that discards the considered rules; used to decide about real calls.
pub(super) struct NoSteps;

impl Recorder for NoSteps {
    #[inline]
    fn add(&mut self, _: Stage, _: StepResult, _: impl FnOnce() -> String) {}
}

impl Recorder for Vec<Step> {
    fn add(&mut self, stage: Stage, result: StepResult, rule: impl FnOnce() -> String) {
        self.push(Step { stage, result, rule: rule() });
    }
}
