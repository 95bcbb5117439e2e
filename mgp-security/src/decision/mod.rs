//! The decision of all layers about a tool call: it is allowed, refused, or needs an answer first (MGP §3–§5).
//!
//! [`decide`] has no effects: it only reads the facts of a call and a snapshot of the rules. The [gate](crate::gate)
//! runs it before each call and again after each wait; previews and rechecks run the same function. The rules are
//! applied in the order of [`Stage`].
//!
//! Lists of tools are filtered by the first two stages only, access and definition, with the same functions:
//! `AccessView::judge`, and the state of the definition (see `gate/list.rs`).

mod snapshot;
mod verdict;

use std::sync::Arc;

use mgp_types::Sha256Hash;
use mgp_types::mgp::{DefaultPolicy, Permission, RiskLevel, Validator};
use mgp_types::service::{Call, Context, Hidden, Principal, ServerId};
use mgp_types::store::StoreError;

use crate::access::{
    Access, AccessDenied, AccessView, Credentials, Delegation, MAX_NAME, Moment, Need, hidden,
    name_of,
};
use crate::definition::{
    DefinitionRefused, DefinitionRule, Definitions, KnownTool, why_not_callable,
};
use crate::error::{LongName, Refusal};
use crate::permission::{
    AskOutcomes, MissingPermission, PermissionJudgement, PermissionNeed, PermissionRefused,
};
use crate::scope::{HeldScopes, ScopesMissing};
use crate::tool::{Assessment, ConfirmRefused, NamedTool};

pub(crate) use snapshot::{ServerName, Snapshot, Sources, ToolOrigin};
use verdict::Findings;
pub use verdict::{CallOutcome, CallVerdict, Requirement, Stage, Step, StepResult};

/// A call, with everything that a decision about it depends on besides the rules.
pub(crate) struct CallFacts<'a> {
    /// The call: its principal, its credentials, and the arguments that validators check.
    pub(crate) call: &'a Call,
    pub(crate) server: Option<&'a ServerId>,
    pub(crate) tool: &'a str,
    pub(crate) arguments: Option<&'a str>,
    pub(crate) at: &'a Moment<'a>,
    pub(crate) preparations: &'a CallPreparations,
}

/// The definition and the risk of a tool for which a call was confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfirmedTool {
    /// The hash of the definition, if it is known.
    pub(crate) definition: Option<Sha256Hash>,
    pub(crate) risk: RiskLevel,
}

/// The questions that were already asked for a call, and the preparations that were already made, so that neither is
/// repeated.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent steps of a call")]
pub(crate) struct CallPreparations {
    /// `true` once the server's tools were listed for this call, so that they are not listed again. While a person
    /// decides, the server can announce more changes; then the tools may be listed again.
    pub(crate) listed: bool,
    /// The number of times that the server's tools were listed for this call.
    pub(crate) listings: usize,
    /// The number of changes that the server had announced when it listed the same tools twice in a row for this call.
    /// The tools count as current as long as this number stays the same.
    pub(crate) settled: Option<u64>,
    /// `true` once an override of the tool's risk was recorded for this call, so that none is recorded again.
    pub(crate) recorded: bool,
    /// The answers to the question about permissions, which is asked at most once; `None` before it is asked.
    pub(crate) asked: Option<AskOutcomes>,
    /// The permissions that a person granted for this call only, when confirming it.
    pub(crate) granted: Vec<Permission>,
    /// The confirmations of the call, with the tool as the person saw it.
    pub(crate) confirmed: Vec<ConfirmedTool>,
    /// `true` when a call that has waited is decided about once more, immediately before it runs. If the server had
    /// announced changes but listed the same tools again, its further announcements do not count in this decision.
    pub(crate) is_last_decision: bool,
    /// `true` for a preview that covers all possible arguments. Then neither the schema nor validators apply, and
    /// limits of approvals apply only if the tool takes no arguments.
    pub(crate) any_arguments: bool,
}

impl CallPreparations {
    /// Returns the preparations of a call that must not ask again: the question about permissions counts as asked, the
    /// tools count as listed, and an override of the risk counts as recorded.
    pub(crate) fn finished(
        granted: Vec<Permission>,
        confirmed: Vec<ConfirmedTool>,
        settled: Option<u64>,
    ) -> Self {
        Self {
            listed: true,
            settled,
            recorded: true,
            asked: Some(AskOutcomes::default()),
            granted,
            confirmed,
            is_last_decision: true,
            ..Self::default()
        }
    }
}

/// Decides about a call, with a snapshot of the rules.
#[inline]
pub(crate) fn decide(facts: &CallFacts<'_>, snapshot: &Snapshot<'_>) -> CallVerdict {
    judge(facts, snapshot, &mut NoSteps)
}

/// Decides about a call as [`decide`] does, and lists each rule that was considered. If permissions must be decided
/// first, the list also contains the rule about confirmation, although that rule applies only afterwards.
pub(crate) fn explain(facts: &CallFacts<'_>, snapshot: &Snapshot<'_>) -> CallVerdict {
    let mut steps = Vec::new();
    let verdict = judge(facts, snapshot, &mut steps);
    if let CallOutcome::Ask(Requirement::Permissions(_)) = verdict.outcome()
        && let Some(assessment) = verdict.assessment()
    {
        // Called only to record this rule: the permissions must be decided first, so the outcome does not matter here.
        let (tool, mut findings) = ((&**assessment, None), Findings::default());
        let _ = check_confirmation(facts, snapshot, tool, &mut findings, &mut steps);
    }
    verdict.with_steps(steps)
}

/// Returns the outcome that a call with valid arguments would have if the server had all permissions: the call is
/// allowed, or must be confirmed.
pub(crate) fn after_permissions(
    facts: &CallFacts<'_>,
    snapshot: &Snapshot<'_>,
    assessment: &Assessment,
) -> CallOutcome {
    let (tool, mut findings) = ((assessment, None), Findings::default());
    let next = check_confirmation(facts, snapshot, tool, &mut findings, &mut NoSteps);
    next.err().unwrap_or(CallOutcome::Allow)
}

/// Returns the permissions that a call lacks, if approvers can be asked about them. Returns `None` if approvers must
/// not be asked, or if the stored permissions cannot be read.
pub(crate) fn lacked_permissions(
    facts: &CallFacts<'_>,
    snapshot: &Snapshot<'_>,
    assessment: &Assessment,
) -> Option<Vec<Permission>> {
    let Some(judged) = judge_permissions(facts, snapshot, assessment) else {
        return Some(Vec::new());
    };
    let judgement = judged.ok()?;
    if !judgement.may_ask && !judgement.missing.is_empty() {
        return None;
    }
    let missing = judgement.missing.iter().map(|missing| &missing.permission);
    Some(Permission::canonical(missing))
}

/// Checks whether a caller is allowed to see a tool, by the rules of access and definition only; asks no questions.
///
/// # Errors
/// [`Hidden`], with the rule that hides the tool.
pub(crate) fn see(
    access: &Access,
    definitions: &Definitions,
    cx: &Context,
    server: Option<&str>,
    tool: &str,
) -> Result<(), Hidden> {
    let clock = || access.now();
    let (view, at) = (access.view(&cx.principal), Moment::of(&clock));
    let default = || access.default_policy(server.map(ServerId::from).as_ref());
    let need = Need::See(tool);
    hidden(view.judge(Credentials::of(cx), server, Some(tool), need, &at, default))?;
    match definitions.tools_of(server) {
        Some(tools) if !tools.state(tool).is_callable() => {
            Err(Hidden::new(why_not_callable(tools.state(tool))))
        }
        _ => Ok(()),
    }
}

/// Returns the permissions that are missing for every call of a tool, whatever its arguments.
pub(crate) fn missing(
    sources: &Sources,
    principal: &Principal,
    server: &ServerId,
    tool: &str,
) -> Vec<MissingPermission> {
    let clock = || sources.now();
    let at = Moment::of(&clock);
    let snapshot = Snapshot::of(sources, principal, Some(server));
    let assessment = snapshot.assessment(Some(server), tool, snapshot.known(tool));
    let needed = assessment.permissions.as_slice();
    let server = Some(server);
    let Some(view) = snapshot.permissions_for(server, needed) else {
        return Vec::new();
    };
    let is_of_tools = &|permission: &Permission| snapshot.is_of_tools(permission);
    let need = PermissionNeed {
        principal,
        server,
        tool,
        needed,
        arguments: None,
        any_arguments: true,
        definition: None,
        at: at.get(),
        is_of_tools,
    };
    view.missing(&need, &snapshot.policy(server))
}

#[inline]
fn judge(facts: &CallFacts<'_>, snapshot: &Snapshot<'_>, steps: &mut impl Recorder) -> CallVerdict {
    let mut findings = Findings::default();
    let outcome = match apply_rules(facts, snapshot, &mut findings, steps) {
        Ok(()) => CallOutcome::Allow,
        Err(outcome) => outcome,
    };
    CallVerdict::new(outcome, findings)
}

/// Applies the rules in order; stops at the first one that refuses the call or needs an answer.
#[inline]
fn apply_rules(
    facts: &CallFacts<'_>,
    snapshot: &Snapshot<'_>,
    findings: &mut Findings,
    steps: &mut impl Recorder,
) -> Result<(), CallOutcome> {
    if let Some(view) = snapshot.access() {
        let CallFacts { server, tool, at, .. } = *facts;
        let default = || snapshot.policy(server).default_policy;
        check_access(view, facts.call.cx(), server, Some(tool), at, default, steps)?;
        if let Some(delegation) = facts.call.cx().extensions.get::<Delegation>() {
            check_delegation(facts, snapshot, delegation, steps)?;
        }
    }
    let known = snapshot.known(facts.tool);
    check_definition(facts, snapshot, known, steps)?;
    #[cfg(feature = "schemas")]
    check_schema(facts, known, steps)?;
    if !snapshot.assesses() {
        return Ok(());
    }
    let assessment = snapshot.assessment(facts.server, facts.tool, known);
    findings.assessment = Some(Arc::clone(&assessment));
    check_scopes(facts, &assessment, steps)?;
    let permitted = check_permissions(facts, snapshot, &assessment, steps);
    // The validators also run if approvers can still grant the missing permissions, so that no person is asked about a
    // call that a validator refuses.
    if permitted.is_ok() || lacked_permissions(facts, snapshot, &assessment).is_some() {
        check_arguments(facts, snapshot, &assessment, findings, steps)?;
    }
    let doubt = permitted?;
    check_confirmation(facts, snapshot, (&*assessment, doubt), findings, steps)
}

/// Checks a caller's access to a tool, or to a whole server if `tool` is `None`.
///
/// # Errors
/// The [`Refusal`] for a caller without access.
pub(crate) fn admit(sources: &Sources, cx: &Context, tool: Option<&str>) -> Result<(), Refusal> {
    let Some(access) = &sources.access else { return Ok(()) };
    let clock = || sources.now();
    let (server, at) = (sources.server_of(cx), Moment::of(&clock));
    let default = || sources.policies.get(server).default_policy;
    check_access(&access.view(&cx.principal), cx, server, tool, &at, default, &mut NoSteps)
}

#[inline]
fn check_access(
    view: &AccessView<'_>,
    cx: &Context,
    server: Option<&ServerId>,
    tool: Option<&str>,
    at: &Moment<'_>,
    default: impl FnOnce() -> DefaultPolicy,
    steps: &mut impl Recorder,
) -> Result<(), Refusal> {
    // An access entry cannot contain a name longer than `MAX_NAME`, so no entry can allow such a tool. The refusal does
    // not repeat the name.
    if let Some(long) = tool.map(str::len).filter(|length| *length > MAX_NAME) {
        steps.add(Stage::Access, StepResult::Refused, || format!("a name of {long} bytes"));
        return Err(LongName::new(long, MAX_NAME).into());
    }
    // Credentials that permit only some of a server's tools do not permit using the server as a whole.
    let need = tool.map_or(Need::Server, Need::Call);
    let (credentials, id) = (Credentials::of(cx), server.map(ServerId::as_str));
    let ruling = view.judge(credentials, id, tool, need, at, default).inspect_err(|ended| {
        steps.add(Stage::Access, StepResult::Refused, || ended.to_string());
    })?;
    if ruling.is_allowed() {
        let rule = || ruling.to_decision().rule().as_str().to_owned();
        steps.add(Stage::Access, StepResult::Passed, rule);
        return Ok(());
    }
    let decision = ruling.to_decision();
    steps.add(Stage::Access, StepResult::Refused, || decision.rule().as_str().to_owned());
    Err(AccessDenied::new(name_of(&cx.principal), server, tool, &decision).into())
}

/// Checks the access of the agents on whose behalf a call is made.
fn check_delegation(
    facts: &CallFacts<'_>,
    snapshot: &Snapshot<'_>,
    delegation: &Delegation,
    steps: &mut impl Recorder,
) -> Result<(), Refusal> {
    let CallFacts { server, tool, at, .. } = *facts;
    for principal in delegation.principals() {
        let Some(view) = snapshot.access_of(principal) else { continue };
        let mut cx = facts.call.cx().clone();
        cx.principal = principal.clone();
        let default = || snapshot.policy(server).default_policy;
        check_access(&view, &cx, server, Some(tool), at, default, steps)?;
    }
    Ok(())
}

#[inline]
fn check_definition(
    facts: &CallFacts<'_>,
    snapshot: &Snapshot<'_>,
    known: Option<&Arc<KnownTool>>,
    steps: &mut impl Recorder,
) -> Result<(), CallOutcome> {
    let rule = |server| {
        snapshot.definition_rule(server, known, facts.preparations).map(|rule| (rule, server))
    };
    let Some((rule, server)) = facts.server.and_then(rule) else { return Ok(()) };
    let rule = rule.map_err(|error| {
        steps.add(Stage::Definition, StepResult::Refused, || error.to_string());
        Refusal::Unchanged(error.into())
    })?;
    let (tool, principal) = (facts.tool, &facts.call.cx().principal);
    let refused = match rule {
        DefinitionRule::Record if facts.preparations.recorded => None,
        DefinitionRule::Record => {
            let why = || "an event must record the operator's risk for it first".to_owned();
            steps.add(Stage::Definition, StepResult::Asks, why);
            return Err(CallOutcome::Ask(Requirement::RiskRecord));
        }
        DefinitionRule::Refuse(state) => {
            Some(DefinitionRefused::new(server, tool, state, principal))
        }
        DefinitionRule::List if !facts.preparations.listed => {
            let why = || "the tools of the server must be listed first".to_owned();
            steps.add(Stage::Definition, StepResult::Asks, why);
            return Err(CallOutcome::Ask(Requirement::Listing));
        }
        // The definition is being updated at the moment; the caller can retry.
        DefinitionRule::List if known.is_some_and(|known| known.is_listed()) => {
            Some(DefinitionRefused::unsettled(server, tool, principal))
        }
        DefinitionRule::Allow | DefinitionRule::List => None,
    };
    let Some(refused) = refused else {
        let state = || snapshot.definition_state(server, tool).to_owned();
        steps.add(Stage::Definition, StepResult::Passed, state);
        return Ok(());
    };
    steps.add(Stage::Definition, StepResult::Refused, || refused.to_string());
    Err(Refusal::from(refused).into())
}

/// Checks the arguments against the input schema of the tool, if the server's policy requires it.
#[cfg(feature = "schemas")]
fn check_schema(
    facts: &CallFacts<'_>,
    known: Option<&Arc<KnownTool>>,
    steps: &mut impl Recorder,
) -> Result<(), CallOutcome> {
    let Some(known) = known.filter(|_| !facts.preparations.any_arguments) else { return Ok(()) };
    known.check_arguments(facts.arguments).map_err(|refused| {
        steps.add(Stage::Schema, StepResult::Refused, || refused.to_string());
        Refusal::Arguments(refused).into()
    })
}

/// Checks that the call has the scopes that the tool requires. Only calls in sessions with limited scopes carry scopes.
fn check_scopes(
    facts: &CallFacts<'_>,
    assessment: &Assessment,
    steps: &mut impl Recorder,
) -> Result<(), CallOutcome> {
    let Some(held) = facts.call.cx().extensions.get::<HeldScopes>() else { return Ok(()) };
    let missing = held.missing(&assessment.required_scopes).map_err(|ended| {
        steps.add(Stage::Scopes, StepResult::Refused, || ended.to_string());
        Refusal::from(ended)
    })?;
    for scope in &assessment.required_scopes {
        let is_held = !missing.contains(scope);
        let result = if is_held { StepResult::Passed } else { StepResult::Refused };
        steps.add(Stage::Scopes, result, || scope.clone());
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(Refusal::Scopes(Box::new(ScopesMissing::new(facts.tool, missing))).into())
}

/// Judges the permissions of a call; `None` if it needs none.
pub(crate) fn judge_permissions(
    facts: &CallFacts<'_>,
    snapshot: &Snapshot<'_>,
    assessment: &Assessment,
) -> Option<Result<PermissionJudgement, StoreError>> {
    let needed = assessment.permissions.as_slice();
    let CallFacts { server, tool, arguments, .. } = *facts;
    let view = snapshot.permissions_for(server, needed)?;
    let (principal, at) = (&facts.call.cx().principal, facts.at.get());
    let is_of_tools = &|permission: &Permission| snapshot.is_of_tools(permission);
    let need = PermissionNeed {
        principal,
        server,
        tool,
        needed,
        arguments,
        any_arguments: facts.preparations.any_arguments,
        definition: snapshot.definition(tool),
        at,
        is_of_tools,
    };
    Some(view.judge(&need, &snapshot.policy(server)))
}

fn check_permissions(
    facts: &CallFacts<'_>,
    snapshot: &Snapshot<'_>,
    assessment: &Assessment,
    steps: &mut impl Recorder,
) -> Result<Option<MissingPermission>, CallOutcome> {
    let needed = assessment.permissions.as_slice();
    let CallFacts { server, tool, preparations, .. } = *facts;
    let Some(judgement) = judge_permissions(facts, snapshot, assessment) else {
        return Ok(None);
    };
    let judgement = judgement.map_err(|error| {
        steps.add(Stage::Permissions, StepResult::Refused, || error.to_string());
        Refusal::from(Box::new(PermissionRefused::unreadable(&error)))
    })?;
    if judgement.missing.is_empty() && (preparations.asked.is_some() || !judgement.to_record) {
        for permission in needed {
            steps.add(Stage::Permissions, StepResult::Passed, || permission.as_str().to_owned());
        }
        return Ok(judgement.doubt);
    }
    let lacks_none = |granted: &[Permission]| {
        judgement.missing.iter().all(|missing| granted.contains(&missing.permission))
    };
    if judgement.may_ask
        && (lacks_none(&preparations.granted)
            || snapshot.approved(facts, |call| lacks_none(&call.permissions)).is_some())
    {
        steps.add(Stage::Permissions, StepResult::Passed, || "granted for this call".to_owned());
        return Ok(judgement.doubt);
    }
    let may_ask = judgement.may_ask || judgement.missing.is_empty();
    let asks = may_ask && preparations.asked.is_none();
    for missing in &judgement.missing {
        let result = if asks { StepResult::Asks } else { StepResult::Refused };
        let why = || format!("{}: {}", missing.permission, missing.why);
        steps.add(Stage::Permissions, result, why);
    }
    if asks {
        if judgement.missing.is_empty() {
            let why = || "an event must record what the policy grants first".to_owned();
            steps.add(Stage::Permissions, StepResult::Asks, why);
        }
        return Err(CallOutcome::Ask(Requirement::Permissions(judgement.missing)));
    }
    let none = AskOutcomes::default();
    let outcomes = preparations.asked.as_ref().unwrap_or(&none);
    let refused = outcomes.refuse(server, tool, judgement.missing);
    Err(Refusal::from(Box::new(refused)).into())
}

fn check_arguments(
    facts: &CallFacts<'_>,
    snapshot: &Snapshot<'_>,
    assessment: &Assessment,
    findings: &mut Findings,
    steps: &mut impl Recorder,
) -> Result<(), CallOutcome> {
    if assessment.validators.is_empty() || facts.preparations.any_arguments {
        return Ok(());
    }
    let Some(validators) = snapshot.validators() else { return Ok(()) };
    let call = (facts.call, facts.server, facts.tool);
    let definition = snapshot.definition(facts.tool);
    let trust = &snapshot.policy(facts.server).trust;
    let limits_paths = are_paths_limited(facts, snapshot, assessment);
    let validation = validators.check(call, assessment, definition, trust, limits_paths);
    let passed = validation.applied.len() - usize::from(validation.fails_last());
    for validator in &validation.applied[..passed] {
        steps.add(Stage::Validators, StepResult::Passed, || validator.as_str().to_owned());
    }
    findings.set_applied(validation.applied);
    let Some(blocked) = validation.blocked else { return Ok(()) };
    steps.add(Stage::Validators, StepResult::Refused, || blocked.to_string());
    Err(Refusal::Blocked(blocked).into())
}

/// Returns whether a call contains the URL of a file, and a permission with limits on paths allows all paths of the
/// call. Returns `false` for a call without such a URL.
fn are_paths_limited(
    facts: &CallFacts<'_>,
    snapshot: &Snapshot<'_>,
    assessment: &Assessment,
) -> bool {
    let has_file = |arguments: &str| arguments.to_ascii_lowercase().contains("file:");
    if !assessment.validators.contains(&Validator::NetworkRestricted)
        || !facts.arguments.is_some_and(has_file)
    {
        return false;
    }
    let judged = judge_permissions(facts, snapshot, assessment);
    let judgement = judged.and_then(Result::ok);
    judgement.is_some_and(|judged| judged.limits_paths && judged.missing.is_empty())
}

/// Checks whether a person must confirm the call: because of the tool's risk, or because an argument might exceed the
/// limits of a permission.
fn check_confirmation(
    facts: &CallFacts<'_>,
    snapshot: &Snapshot<'_>,
    (assessment, doubt): (&Assessment, Option<MissingPermission>),
    findings: &mut Findings,
    steps: &mut impl Recorder,
) -> Result<(), CallOutcome> {
    if !snapshot.confirms() {
        let Some(doubt) = doubt else { return Ok(()) };
        let refused = AskOutcomes::default().refuse(facts.server, facts.tool, vec![doubt]);
        return Err(Refusal::from(Box::new(refused)).into());
    }
    if assessment.is_harmless() && doubt.is_none() {
        return Ok(());
    }
    let confirmed = &facts.preparations.confirmed;
    // The tools may have been listed again since the person saw the definition.
    if !confirmed.is_empty() && confirmed.contains(&snapshot.confirmable(facts, assessment)) {
        return Ok(());
    }
    let policy = snapshot.policy(facts.server);
    let risk = || {
        let risk = || format!("{} risk", assessment.effective_risk);
        doubt.as_ref().map_or_else(risk, |doubt| format!("{}: {}", doubt.permission, doubt.why))
    };
    if doubt.is_none() && !assessment.needs_confirmation(&policy, None) {
        steps.add(Stage::Confirmation, StepResult::Passed, risk);
        return Ok(());
    }
    let naming = snapshot.naming(facts);
    match naming {
        Some(naming)
            if doubt.is_none() && !assessment.needs_confirmation(&policy, Some(&naming)) =>
        {
            steps.add(Stage::Confirmation, StepResult::Passed, || naming.entry().to_owned());
            findings.set_confirmation_spared_by(naming);
            Ok(())
        }
        _ => {
            if let Some(approval) = snapshot.approved(facts, |_| true) {
                let entry = format!("approval {} of {}", approval.id, approval.limits());
                steps.add(Stage::Confirmation, StepResult::Passed, || entry.clone());
                findings.set_confirmation_spared_by(NamedTool::by(entry));
                return Ok(());
            }
            if !confirmed.is_empty() {
                let refused = ConfirmRefused::changed(facts.server, facts.tool, assessment);
                steps.add(Stage::Confirmation, StepResult::Refused, || refused.to_string());
                return Err(Refusal::from(refused).into());
            }
            steps.add(Stage::Confirmation, StepResult::Asks, risk);
            Err(CallOutcome::Ask(Requirement::Confirmation))
        }
    }
}

/// A recorder of the rules that are considered. Each description is passed as a closure, so that it is built only if
/// the recorder stores it.
trait Recorder {
    fn add(&mut self, stage: Stage, result: StepResult, rule: impl FnOnce() -> String);
}

/// A recorder that discards the considered rules; used to decide about real calls.
struct NoSteps;

impl Recorder for NoSteps {
    #[inline]
    fn add(&mut self, _: Stage, _: StepResult, _: impl FnOnce() -> String) {}
}

impl Recorder for Vec<Step> {
    fn add(&mut self, stage: Stage, result: StepResult, rule: impl FnOnce() -> String) {
        self.push(Step { stage, result, rule: rule() });
    }
}
