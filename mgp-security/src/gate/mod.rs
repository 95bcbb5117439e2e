//! The gate in front of a service, which applies the [decision](crate::decision) to calls and lists.
//!
//! - [`DecisionService`] decides about each call, without waiting if no answer is needed.
//! - `wait.rs` obtains the answers that a call needs; after each answer, the call is decided again, immediately before
//!   it runs.
//! - `list.rs` filters lists; `layers.rs` defines the layers.
//!
//! Applies to: inbound and outbound.

mod layers;
mod list;
mod wait;

use std::future::{Ready, ready};
use std::sync::Arc;

use mgp_types::method::{
    CompletionComplete, PromptsGet, PromptsList, Request, ResourcesDirectoryRead, ResourcesList,
    ResourcesRead, ResourcesSubscribe, ResourcesTemplatesList, SkillsGet, SkillsList,
    SubscriptionsListen, ToolsCall, ToolsList, ToolsValidate,
};
use mgp_types::mgp::{Permission, Validator};
use mgp_types::service::{
    BoxFuture, Call, CallRecord, CredentialGrant, Either, MgpService, Recheck, Reply, Rule,
    ServerId, Target, WaitMark,
};
use mgp_types::{ErrorCode, Extras, RpcError, clip};
use tower_service::Service;

use crate::access::{Credentials, Delegation, Moment, name_of};
use crate::audit::REQUESTS_ONLY;
use crate::decision::{
    CallFacts, CallOutcome, CallPreparations, CallVerdict, ConfirmedTool, Requirement, Snapshot,
    Sources, ToolOrigin, admit, decide,
};
use crate::definition::page;
use crate::error::Refusal;
use crate::tool::{ConfirmRefused, note};

pub use layers::{AccessLayer, ConfirmLayer, DefinitionLayer, PermissionLayer, ValidateLayer};

/// The maximum length of a name or rule in a log message, in bytes.
const MAX_LOGGED: usize = 256;

/// The service of all layers that decide about calls: [`AccessLayer`], [`DefinitionLayer`], [`PermissionLayer`],
/// [`ValidateLayer`], [`ConfirmLayer`], and of [`Governance`](crate::Governance).
#[derive(Clone)]
pub struct DecisionService<S> {
    inner: S,
    sources: Arc<Sources>,
}

mgp_types::opaque_debug!(DecisionService<S>);

impl<S> DecisionService<S> {
    pub(crate) fn new(inner: S, sources: Arc<Sources>) -> Self {
        Self { inner, sources }
    }
}

/// The future of a call that is not passed directly to the inner service, because it is answered at once or must wait.
type OwnFuture =
    Either<Ready<Result<Reply, RpcError>>, BoxFuture<'static, Result<Reply, RpcError>>>;

impl<S: MgpService> Service<Call> for DecisionService<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<S::Future, OwnFuture>;

    mgp_types::always_ready!();

    fn call(&mut self, call: Call) -> Self::Future {
        let (sources, cx) = (&*self.sources, call.cx());
        let checked = match CallTarget::of(&call) {
            CallTarget::Tool(_) if call.tool().is_some() => return self.call_tool(call),
            // A notification is checked too, because a server might run the tool. Only the rules of access can decide
            // about a notification: all other rules may have to ask a question, which needs a request.
            CallTarget::Tool(tool) => match admit(sources, cx, Some(tool)) {
                Ok(()) if sources.decides_beyond_access() => {
                    Err(Refusal::NotARequest(Rule::new(REQUESTS_ONLY)))
                }
                checked => checked,
            },
            CallTarget::Unnamed if sources.access.is_some() => {
                return answer(Err(RpcError::invalid_params("`name` must be a string")));
            }
            CallTarget::Validation if sources.access.is_some() => match validated_tool(&call) {
                // Answer as for an unknown tool, so that a caller without access does not learn that the tool exists.
                Ok(tool) => match admit(sources, cx, Some(&tool)) {
                    Err(Refusal::AccessDenied(_)) => return answer(Err(unknown_tool(&tool))),
                    checked => checked,
                },
                Err(error) => return answer(Err(error)),
            },
            CallTarget::Tools => return self.list(call),
            CallTarget::Server => admit(sources, cx, None),
            CallTarget::List(member) => match admit(sources, cx, None) {
                Err(Refusal::AccessDenied(_)) => return answer(Ok(list::empty(member, cx))),
                checked => checked,
            },
            CallTarget::Unnamed | CallTarget::Validation | CallTarget::Other => Ok(()),
        };
        match checked {
            Ok(()) => Either::Left { future: self.inner.call(call) },
            Err(refusal) => answer(Err(deny(sources, &call, refusal))),
        }
    }
}

impl<S: MgpService> DecisionService<S> {
    fn call_tool(&mut self, call: Call) -> <Self as Service<Call>>::Future {
        let preparations = CallPreparations::default();
        match decide_and_note(&self.sources, &call, &preparations).into_outcome() {
            (CallOutcome::Allow, _) => {
                leave_recheck(&self.sources, &call);
                Either::Left { future: self.inner.call(call) }
            }
            (CallOutcome::Refuse(refusal), _) => answer(Err(deny(&self.sources, &call, refusal))),
            (CallOutcome::Ask(need), assessment) => {
                let (sources, inner) = (Arc::clone(&self.sources), self.inner.clone());
                CallRecord::mark_held(call.cx(), true);
                let waiting = wait::run(sources, inner, call, need, assessment, preparations);
                Either::Right { future: Either::Right { future: Box::pin(waiting) } }
            }
        }
    }

    fn list(&mut self, call: Call) -> <Self as Service<Call>>::Future {
        let sources = &self.sources;
        let pins = sources.definitions.as_ref().zip(sources.server_of(call.cx()));
        let pins = pins.filter(|_| sources.origin == ToolOrigin::Foreign);
        if sources.access.is_some() {
            if let Err(ended) = Credentials::of(call.cx()).check_end() {
                return answer(Err(deny(sources, &call, ended.into())));
            }
        } else if pins.is_none() {
            return Either::Left { future: self.inner.call(call) };
        }
        let page = pins.map(|(definitions, server)| page(definitions, server, &call));
        let (sources, cx) = (Arc::clone(sources), call.cx().clone());
        let listed = self.inner.call(call);
        let filtered = async move { list::filter(&sources, &cx, page, listed.await?).await };
        Either::Right { future: Either::Right { future: Box::pin(filtered) } }
    }
}

/// Returns the future of a call that is answered at once.
fn answer<F>(outcome: Result<Reply, RpcError>) -> Either<F, OwnFuture> {
    Either::Right { future: Either::Left { future: ready(outcome) } }
}

/// The answers that persons gave about a single call; an extension of that call.
#[derive(Clone, Default)]
struct Answers {
    /// The permissions that were granted for this call only.
    granted: Vec<Permission>,
    /// The confirmations that persons gave after a question; empty for a call that needed no confirmation.
    confirmed: Vec<ConfirmedTool>,
    /// The number of announced changes of the server's tools at which they count as current for this call; see
    /// [`CallPreparations::settled`].
    settled: Option<u64>,
}

impl Answers {
    /// Returns the answers that a call has received so far.
    fn of(call: &Call) -> Self {
        call.cx().extensions.get::<Self>().cloned().unwrap_or_default()
    }
}

/// Calls a function with the facts of a tool call and the current rules that decide about it.
fn with_facts<T>(
    sources: &Sources,
    call: &Call,
    preparations: &CallPreparations,
    look: impl FnOnce(&CallFacts<'_>, &Snapshot<'_>) -> T,
) -> T {
    let (tool, arguments) = call.tool().map_or(("", None), |tool| (tool.name, tool.arguments));
    let server = sources.server_of(call.cx());
    let clock = || sources.now();
    let at = Moment::of(&clock);
    let snapshot = Snapshot::of(sources, &call.cx().principal, server);
    look(&CallFacts { call, server, tool, arguments, at: &at, preparations }, &snapshot)
}

/// Decides about a tool call now. Adds to the call's audit record which validators ran, for which agents the call is
/// made, and which entry made a confirmation unnecessary.
fn decide_and_note(sources: &Sources, call: &Call, preparations: &CallPreparations) -> CallVerdict {
    let verdict = with_facts(sources, call, preparations, decide);
    if !verdict.applied().is_empty() {
        let applied: Vec<&str> = verdict.applied().iter().map(Validator::as_str).collect();
        note(call.cx(), "validator_applied", &applied.join(", "));
    }
    if let Some(delegation) = call.cx().extensions.get::<Delegation>() {
        let agents: Vec<&str> = delegation.principals().iter().map(name_of).collect();
        note(call.cx(), "on_behalf_of", &agents.join(", "));
    }
    if let Some(naming) = verdict.confirmation_spared_by() {
        note(call.cx(), "confirmation_spared_by", naming.entry());
    }
    verdict
}

/// Decides once more about a call that [waited](WaitMark) in an inner layer, immediately before it runs. Asks no more
/// questions.
///
/// # Errors
/// The refusal, if the call is no longer allowed to run.
pub(crate) fn recheck(sources: &Sources, call: &Call) -> Result<(), RpcError> {
    if !WaitMark::is_set(call.cx()) || call.tool().is_none() {
        return Ok(());
    }
    decide_again(sources, call, Answers::of(call))
}

/// Leaves a check of an admitted call for the code that lets the call wait for answers of its caller.
fn leave_recheck(sources: &Arc<Sources>, call: &Call) {
    let Some(recheck) = call.cx().extensions.get_shared::<Recheck>() else { return };
    let (sources, mut call) = (Arc::clone(sources), call.clone());
    // A check that contained its own list of checks would never be freed.
    call.cx_mut().extensions.insert(Recheck::default());
    recheck.insert(Arc::as_ptr(&sources).addr(), move |cx| {
        let mut call = call.clone();
        // The credentials that began the call may have expired meanwhile, e.g. a token that its caller has refreshed.
        if let Some(grant) = cx.extensions.get::<CredentialGrant>() {
            call.cx_mut().extensions.insert(grant.clone());
        }
        // The tool runs already, so changes that the server has announced meanwhile need no new list.
        let server = sources.server_of(call.cx());
        let definitions = sources.definitions.as_ref().zip(server);
        let settled = definitions.map(|(definitions, server)| definitions.announcements(server));
        decide_again(&sources, &call, Answers { settled, ..Answers::of(&call) })
    });
}

/// Decides again about a call with the answers that it has received; asks no more questions.
fn decide_again(sources: &Sources, call: &Call, answers: Answers) -> Result<(), RpcError> {
    let Answers { granted, confirmed, settled } = answers;
    let preparations = CallPreparations::finished(granted, confirmed, settled);
    match decide_and_note(sources, call, &preparations).into_outcome() {
        (CallOutcome::Allow, _) => Ok(()),
        (CallOutcome::Refuse(refusal), _) => Err(deny(sources, call, refusal)),
        (CallOutcome::Ask(Requirement::Confirmation), Some(assessment)) => {
            let (server, tool) = (sources.server_of(call.cx()), call.tool().map(|tool| tool.name));
            let refused =
                ConfirmRefused::newly_needed(server, tool.unwrap_or_default(), &assessment);
            Err(deny(sources, call, refused.into()))
        }
        (CallOutcome::Ask(_), _) => Err(undecided()),
    }
}

/// Returns the error that refuses a call because a question that the call needs cannot be asked.
fn undecided() -> RpcError {
    RpcError::internal("a question about this call could not be asked; it was not run")
}

/// Logs a refusal for the operator, and converts it to the error for the caller.
fn deny(sources: &Sources, call: &Call, refusal: Refusal) -> RpcError {
    if let Refusal::Unconfirmed(refused) = &refusal
        && let Some(reason) = refused.reason()
    {
        note(call.cx(), "justification", reason);
    }
    let error = RpcError::from(refusal);
    note_remedy(call, &error);
    log_denied(sources, call, &error);
    error
}

/// Adds to the audit record of a refused call what would let it run: the missing permissions, and the id of the
/// approval request that a person can answer.
fn note_remedy(call: &Call, error: &RpcError) {
    let Some(details) = error.as_recovery().and_then(|hint| hint.details.as_ref()) else { return };
    let missing = details.decode::<Vec<Extras>>("missing").ok().flatten().unwrap_or_default();
    let names: Vec<String> =
        missing.iter().filter_map(|one| one.get("permission")?.get().ok()).collect();
    if !names.is_empty() {
        note(call.cx(), "missing", &names.join(" "));
    }
    if let Ok(Some(id)) = details.decode::<String>("approval_id") {
        note(call.cx(), "approval_id", &id);
    }
}

fn log_denied(sources: &Sources, call: &Call, error: &RpcError) {
    let (cx, tool) = (call.cx(), call.params().target());
    let tool = match tool {
        Some(Target::Tool(tool)) => Some(clip(tool, MAX_LOGGED)),
        _ => None,
    };
    tracing::info!(
        server = sources.server_of(cx).map(ServerId::as_str),
        tool = tool.as_deref(),
        agent = name_of(&cx.principal),
        rule = Rule::of(error).map(|rule| clip(rule.as_str(), MAX_LOGGED)).as_deref(),
        code = error.code().0,
        trace = cx.trace.as_deref(),
        "denied"
    );
}

/// The part of a server that a message uses.
///
/// Notifications have a target like requests, because a server might run them as well.
enum CallTarget<'a> {
    Tool(&'a str),
    /// A tool call without the name of a tool.
    Unnamed,
    /// A request to check arguments. It contains the tool's name in a member that is not parsed yet.
    Validation,
    /// The list of the server's tools.
    Tools,
    /// Something that belongs to the server as a whole, e.g. a resource.
    Server,
    /// A list of items that belong to the server as a whole, with the name of the member that contains them.
    List(&'static str),
    Other,
}

impl<'a> CallTarget<'a> {
    fn of(call: &'a Call) -> Self {
        match call.params().target() {
            Some(Target::Tool(name)) => Self::Tool(name),
            _ if call.is::<SubscriptionsListen>() && watches_resources(call) => Self::Server,
            _ => Self::of_method(call.method().as_str()),
        }
    }

    fn of_method(method: &str) -> Self {
        match method {
            ToolsCall::METHOD => Self::Unnamed,
            ToolsList::METHOD => Self::Tools,
            ToolsValidate::METHOD => Self::Validation,
            ResourcesRead::METHOD
            | ResourcesDirectoryRead::METHOD
            | SkillsGet::METHOD
            | ResourcesSubscribe::METHOD
            | PromptsGet::METHOD
            | CompletionComplete::METHOD => Self::Server,
            ResourcesList::METHOD => Self::List("resources"),
            ResourcesTemplatesList::METHOD => Self::List("resourceTemplates"),
            PromptsList::METHOD => Self::List("prompts"),
            SkillsList::METHOD => Self::List("skills"),
            // All other messages are allowed; e.g. a caller who has lost access to a resource can still unsubscribe
            // from it. The test below lists their methods. Methods that are not in the table of mgp-types pass too:
            // the routers behind this gate refuse those that they do not know.
            _ => Self::Other,
        }
    }
}

/// Returns the name of the tool in a request to check arguments.
fn validated_tool(call: &Call) -> Result<String, RpcError> {
    Ok(call.params().get::<<ToolsValidate as Request>::Params>()?.name)
}

fn unknown_tool(name: &str) -> RpcError {
    let message =
        format!("unknown tool `{}`; use a name from `tools/list`", clip(name, MAX_LOGGED));
    RpcError::new(ErrorCode::TOOL_NOT_FOUND, message)
}

/// Returns whether a request opens a stream that reports changes of resources. Returns `true` if its params cannot be
/// parsed.
fn watches_resources(call: &Call) -> bool {
    let params = call.params().get::<<SubscriptionsListen as Request>::Params>();
    params.map_or(true, |params| !params.notifications.resource_subscriptions.is_empty())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use mgp_types::method::{Direction, methods};

    use super::*;

    /// The markers of the messages to a server that pass the gate without a check. Add a method only if it uses no
    /// tool, resource or prompt of a server, or if the layer that answers it checks the access itself.
    const UNCHECKED: &[&str] = &[
        "AccessGrant",
        "AccessQuery",
        "AccessRevoke",
        "AuditNotification",
        "CallbackRespond",
        "Cancelled",
        "DiscoveryDeregister",
        "DiscoveryList",
        "DiscoveryRegister",
        "EventNotification",
        "EventsChannels",
        "EventsReplay",
        "EventsSubscribe",
        "EventsUnsubscribe",
        "HealthPing",
        "HealthStatusGet",
        "Initialize",
        "Initialized",
        "LifecycleShutdown",
        "LoggingSetLevel",
        "ManifestGet",
        "PermissionAwait",
        "PermissionGrant",
        "PermissionRequest",
        "PermissionResponse",
        "PermissionsCheck",
        "Ping",
        "Progress",
        "ResourcesUnsubscribe",
        "RootsListChanged",
        "ScopesNegotiate",
        "ScopesRevoke",
        "ServerDiscover",
        "ServersRecommend",
        "StreamCancel",
        "StreamGap",
        "StreamPace",
        "SubscriptionsListen",
        "TasksCancel",
        "TasksGet",
        "TasksList",
        "TasksResult",
        "TasksStatus",
        "TasksUpdate",
        "ToolsDiscover",
        "ToolsRequest",
        "ToolsSession",
        "ToolsSessionEvict",
        "TransactionBegin",
        "TransactionCommit",
        "TransactionRollback",
        "TxBegin",
        "TxCommit",
        "TxRollback",
    ];

    #[test]
    fn every_message_to_a_server_is_checked_unless_it_is_listed_as_unchecked() {
        // The methods that only a kernel has are left out: they are for operators, and no server gets them.
        let to_server = methods()
            .filter(|info| info.direction != Direction::ToClient && !info.is_kernel_only());
        let unchecked = to_server
            .filter(|info| matches!(CallTarget::of_method(info.name), CallTarget::Other))
            .map(|info| info.marker);
        let expected: BTreeSet<&str> = UNCHECKED.iter().copied().collect();
        assert_eq!(unchecked.collect::<BTreeSet<_>>(), expected);
    }
}
