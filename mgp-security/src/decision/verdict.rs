//! The verdict about a call: its outcome, the assessment behind it, and the rules that led to it.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use mgp_types::mgp::Validator;
use mgp_types::service::Rule;

use crate::error::Refusal;
use crate::permission::MissingPermission;
use crate::tool::{Assessment, NamedTool};

/// The decision about one call of a tool.
///
/// [`Governance::explain`](crate::Governance::explain) returns it for a call that is not made:
///
/// ```
/// use mgp_security::{CallOutcome, Governance, Stage};
/// use mgp_types::Payload;
/// use mgp_types::service::Principal;
///
/// let governance = Governance::builder().build();
/// let verdict = governance.explain(&Principal::local(), &"disk".into(), "wipe", &Payload::empty_object());
/// assert!(matches!(verdict.outcome(), CallOutcome::Refuse(_)));
/// assert_eq!(verdict.rule().unwrap().as_str(), "default_policy opt-in");
/// assert_eq!(verdict.steps().last().unwrap().stage, Stage::Access);
/// ```
#[derive(Clone, Debug)]
pub struct CallVerdict {
    outcome: CallOutcome,
    assessment: Option<Arc<Assessment>>,
    /// Most calls have none.
    details: Option<Box<Details>>,
}

/// The details of a verdict that few calls have.
#[derive(Clone, Debug, Default)]
struct Details {
    applied: Vec<Validator>,
    spared_by: Option<NamedTool>,
    steps: Vec<Step>,
}

/// The outcome of a decision about a call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CallOutcome {
    /// The call may run.
    Allow,
    /// The call is refused.
    Refuse(Refusal),
    /// The call may run once this is done.
    Ask(Requirement),
}

/// An action that must come before a call may run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Requirement {
    /// The tools of the server must be listed: the definition of the tool is not known, or may have changed.
    Listing,
    /// An event must record the operator's override of the risk of the tool.
    RiskRecord,
    /// These permissions must be decided; none if the policy grants them and only the record is missing.
    Permissions(Vec<MissingPermission>),
    /// The call must be confirmed.
    Confirmation,
}

/// A group of rules, in the order in which they are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// Access of the agent to the tool (§5).
    Access,
    /// The definition of the tool, compared with the approved one (§4).
    Definition,
    /// The permissions of the server (§3).
    Permissions,
    /// The checks of the arguments (§4.5).
    Validators,
    /// The confirmation of risky calls (§4.4).
    Confirmation,
}

/// A rule that was considered, and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// The group of the rule.
    pub stage: Stage,
    /// The result.
    pub result: StepResult,
    /// The rule in words: the entry that decided, the permission, the validator.
    pub rule: String,
}

/// The result of one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StepResult {
    /// The rule lets the call pass.
    Passed,
    /// The rule refuses the call.
    Refused,
    /// The rule needs an answer first.
    Asks,
}

impl CallVerdict {
    /// Returns the outcome.
    #[must_use]
    pub fn outcome(&self) -> &CallOutcome {
        &self.outcome
    }

    /// Returns whether the call may run at once.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        matches!(self.outcome, CallOutcome::Allow)
    }

    /// Returns the refusal, if the call is refused.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        match &self.outcome {
            CallOutcome::Refuse(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// Returns whether the caller sees the tool in lists: neither access nor the definition refuses it.
    #[must_use]
    pub fn is_visible(&self) -> bool {
        let hides = |refusal: &Refusal| {
            matches!(
                refusal,
                Refusal::AccessDenied(_)
                    | Refusal::LongName(_)
                    | Refusal::PassEnded(_)
                    | Refusal::Definition(_)
            )
        };
        !self.refusal().is_some_and(hides)
    }

    /// Returns the rule that refuses the call.
    #[must_use]
    pub fn rule(&self) -> Option<&Rule> {
        let mut error: Option<&(dyn Error + 'static)> = self.refusal().map(|refusal| refusal as _);
        while let Some(cause) = error {
            if let Some(rule) = cause.downcast_ref() {
                return Some(rule);
            }
            error = cause.source();
        }
        None
    }

    /// Returns what calls of the tool need, unless a rule before that refused the call.
    #[must_use]
    pub fn assessment(&self) -> Option<&Arc<Assessment>> {
        self.assessment.as_ref()
    }

    /// Returns each rule that was considered, with its result; only an explained verdict has them.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        self.details.as_ref().map_or(&[], |details| &details.steps)
    }

    /// Returns the validators that checked the arguments.
    pub(crate) fn applied(&self) -> &[Validator] {
        self.details.as_ref().map_or(&[], |details| &details.applied)
    }

    /// Returns the entry that spares the confirmation.
    pub(crate) fn spared_by(&self) -> Option<&NamedTool> {
        self.details.as_ref()?.spared_by.as_ref()
    }

    /// Takes the verdict apart.
    #[inline]
    pub(crate) fn into_outcome(self) -> (CallOutcome, Option<Arc<Assessment>>) {
        (self.outcome, self.assessment)
    }

    #[inline]
    pub(super) fn allow() -> Self {
        Self { outcome: CallOutcome::Allow, assessment: None, details: None }
    }

    pub(super) fn set_outcome(&mut self, outcome: CallOutcome) {
        self.outcome = outcome;
    }

    #[inline]
    pub(super) fn set_assessment(&mut self, assessment: Arc<Assessment>) {
        self.assessment = Some(assessment);
    }

    pub(super) fn set_applied(&mut self, applied: Vec<Validator>) {
        self.details.get_or_insert_default().applied = applied;
    }

    pub(super) fn set_spared_by(&mut self, naming: NamedTool) {
        self.details.get_or_insert_default().spared_by = Some(naming);
    }

    pub(super) fn with_steps(mut self, steps: Vec<Step>) -> Self {
        self.details.get_or_insert_default().steps = steps;
        self
    }
}

impl From<Refusal> for CallOutcome {
    fn from(refusal: Refusal) -> Self {
        Self::Refuse(refusal)
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Access => "access",
            Self::Definition => "definition",
            Self::Permissions => "permissions",
            Self::Validators => "validators",
            Self::Confirmation => "confirmation",
        })
    }
}

impl fmt::Display for StepResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Passed => "passed",
            Self::Refused => "refused",
            Self::Asks => "asks",
        })
    }
}

/// A record of the rules that are considered; the words are built only if they are kept.
pub(super) trait Recorder {
    fn add(&mut self, stage: Stage, result: StepResult, rule: impl FnOnce() -> String);
}

/// Keeps no steps: the decisions about real calls.
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
