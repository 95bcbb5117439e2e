//! The verdict about a call: its outcome, the assessment on which it is based, and the rules that led to it.

use std::error::Error;
use std::fmt;
use std::iter;
use std::sync::Arc;

use mgp_types::mgp::Validator;
use mgp_types::service::Rule;

use crate::error::Refusal;
use crate::permission::MissingPermission;
use crate::tool::{Assessment, NamedTool};

/// The decision about one call of a tool.
///
/// [`Governance::explain`](crate::Governance::explain) returns the verdict about a hypothetical call without making the
/// call:
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
    findings: Findings,
    steps: Vec<Step>,
}

impl CallVerdict {
    #[inline]
    pub(super) fn new(outcome: CallOutcome, findings: Findings, steps: Vec<Step>) -> Self {
        Self { outcome, findings, steps }
    }

    /// Returns the outcome: the call is allowed or refused, or a requirement must be met first.
    #[must_use]
    pub fn outcome(&self) -> &CallOutcome {
        &self.outcome
    }

    /// Returns whether the call can run immediately, i.e. it is not refused and does not need an answer first.
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

    /// Returns whether the tool appears in the caller's lists, i.e. neither the access rules nor its definition hide
    /// it.
    #[must_use]
    pub fn is_visible(&self) -> bool {
        !self.refusal().is_some_and(Refusal::hides_tool)
    }

    /// Returns the rule that refuses the call, or `None` if the call is not refused by a rule.
    #[must_use]
    pub fn rule(&self) -> Option<&Rule> {
        let first = self.refusal().map(|refusal| refusal as &(dyn Error + 'static));
        iter::successors(first, |&error| error.source()).find_map(<dyn Error>::downcast_ref)
    }

    /// Returns the assessment of the tool, or `None` if the call was refused before the tool was assessed.
    #[must_use]
    pub fn assessment(&self) -> Option<&Arc<Assessment>> {
        self.findings.assessment.as_ref()
    }

    /// Returns the rules that were considered, with their results; empty unless the verdict comes from `explain`.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the validators that checked the arguments.
    pub(crate) fn applied(&self) -> &[Validator] {
        self.findings.checks.as_ref().map_or(&[], |checks| &checks.applied)
    }

    /// Returns the entry or approval that makes a confirmation unnecessary, if any.
    pub(crate) fn confirmation_spared_by(&self) -> Option<&NamedTool> {
        self.findings.checks.as_ref()?.confirmation_spared_by.as_ref()
    }

    #[inline]
    pub(crate) fn into_outcome(self) -> (CallOutcome, Option<Arc<Assessment>>) {
        (self.outcome, self.findings.assessment)
    }
}

/// The outcome of a decision about a call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CallOutcome {
    /// The call may run.
    Allow,
    /// The call is refused.
    Refuse(Refusal),
    /// The call can run as soon as this requirement is met.
    Ask(Requirement),
}

/// A condition that must be met before a call can run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Requirement {
    /// The server's tools must be listed, because the definition of the tool is unknown or might have changed.
    Listing,
    /// The operator's override of the tool's risk must be recorded in the audit log.
    RiskRecord,
    /// A decision about these permissions must be made. The list is empty if the policy grants all permissions that the
    /// call needs, and only the audit record of that grant is missing.
    Permissions(Vec<MissingPermission>),
    /// The call must be confirmed.
    Confirmation,
}

/// A group of rules. The variants are in the order in which the groups are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// The rules about the agent's access to the tool (§5).
    Access,
    /// The definition of the tool, compared with the approved one (§4).
    Definition,
    /// The check of the arguments against the schema of the tool.
    Schema,
    /// The scopes of the caller's session (extension `scopes`).
    Scopes,
    /// The rules about the permissions of the server (§3).
    Permissions,
    /// The rules of the validators, which check the arguments (§4.5).
    Validators,
    /// The rules about the confirmation of risky calls (§4.4).
    Confirmation,
}

/// A rule that was considered, and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// The group to which the rule belongs.
    pub stage: Stage,
    /// The result of applying the rule.
    pub result: StepResult,
    /// A description of the rule, e.g. the deciding entry, the permission or the validator.
    pub rule: String,
}

/// The result of applying one rule to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StepResult {
    /// The rule does not object to the call.
    Passed,
    /// The rule refuses the call.
    Refused,
    /// The rule needs an answer before it can decide.
    Asks,
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
            Self::Schema => "schema",
            Self::Scopes => "scopes",
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

/// The results of the rules about a call, in addition to its outcome.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    /// The assessment of the tool; `None` if the call was refused before the tool was assessed.
    pub(super) assessment: Option<Arc<Assessment>>,
    /// Boxed, because most calls have no validators and no entry that names their tool.
    checks: Option<Box<Checks>>,
}

/// The validators that checked a call's arguments, and the entry that makes its confirmation unnecessary.
#[derive(Clone, Debug, Default)]
struct Checks {
    applied: Vec<Validator>,
    confirmation_spared_by: Option<NamedTool>,
}

impl Findings {
    pub(super) fn set_applied(&mut self, applied: Vec<Validator>) {
        self.checks.get_or_insert_default().applied = applied;
    }

    pub(super) fn set_confirmation_spared_by(&mut self, naming: NamedTool) {
        self.checks.get_or_insert_default().confirmation_spared_by = Some(naming);
    }
}
