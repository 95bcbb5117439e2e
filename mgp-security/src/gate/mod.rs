//! The gate in front of a service, which applies the [decision](crate::decision) to calls and lists.
//!
//! - [`DecisionService`] decides about each call, without waiting if no answer is needed.
//! - `target.rs` determines which part of a server a message uses; `denial.rs` refuses calls.
//! - `wait.rs` obtains the answers that a call needs; after each answer, the call is decided again, immediately before
//!   it runs.
//! - `list.rs` filters lists; `layers.rs` defines the layers.
//!
//! Applies to: inbound and outbound.

mod denial;
mod layers;
mod list;
mod target;
mod wait;

use std::future::{Ready, ready};
use std::sync::Arc;

use mgp_types::RpcError;
use mgp_types::mgp::Validator;
use mgp_types::service::{
    BoxFuture, Call, CallRecord, CredentialGrant, Either, MgpService, Recheck, Reply, Rule,
    WaitMark,
};
use tower_service::Service;

use self::denial::{deny, unknown_tool};
use self::target::{CallTarget, validated_tool};
use crate::access::{Credentials, Delegation, name_of};
use crate::audit::REQUESTS_ONLY;
use crate::decision::{
    CallAnswers, CallOutcome, CallPreparations, CallVerdict, Requirement, Sources, ToolOrigin,
    admit, decide,
};
use crate::definition::{DefinitionRefused, page};
use crate::error::Refusal;
use crate::tool::{ConfirmRefused, note};

pub use layers::{AccessLayer, ConfirmLayer, DefinitionLayer, PermissionLayer, ValidateLayer};

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

/// The future of a call that is not passed directly to the inner service, because it is answered immediately or must
/// wait.
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
                if let Err(error) = check_may_run(&self.sources, &call) {
                    return answer(Err(error));
                }
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

/// Returns the future of a call that is answered immediately.
fn answer<F>(outcome: Result<Reply, RpcError>) -> Either<F, OwnFuture> {
    Either::Right { future: Either::Left { future: ready(outcome) } }
}

/// A mark in the extensions of a tool call that must not reach the server, even if the decision allows the call.
///
/// A kernel marks a call if its caller has no access to the tool, or if the definition of the tool waits for an
/// operator or was rejected: it has not prepared such a call for the server. If access is granted or the approved
/// definition comes back while the call is decided, the call is refused with the remedy to repeat it.
#[derive(Clone, Copy, Debug)]
pub struct DecideOnly;

/// Refuses an allowed call that is marked with [`DecideOnly`].
fn check_may_run(sources: &Sources, call: &Call) -> Result<(), RpcError> {
    let cx = call.cx();
    if cx.extensions.get::<DecideOnly>().is_none() {
        return Ok(());
    }
    let (Some(server), Some(tool)) = (sources.server_of(cx), call.tool()) else {
        return Err(undecided());
    };
    let refused = DefinitionRefused::unsettled(server, tool.name, &cx.principal);
    Err(deny(sources, call, refused.into()))
}

/// Decides about a tool call by the current rules. Adds to the call's audit record which validators ran, for which
/// agents the call is made, and which access entry or approval made a confirmation unnecessary.
fn decide_and_note(sources: &Sources, call: &Call, preparations: &CallPreparations) -> CallVerdict {
    let verdict = decide(sources, call, preparations);
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
    decide_again(sources, call, CallAnswers::of(call))
}

/// Puts a function into the context of an admitted call. The function decides about the call again; the code that lets
/// the call wait for answers of its caller runs it after the wait.
fn leave_recheck(sources: &Arc<Sources>, call: &Call) {
    let Some(recheck) = call.cx().extensions.get_shared::<Recheck>() else { return };
    let (sources, mut call) = (Arc::clone(sources), call.clone());
    // Replace the list of functions in the copy: a function that contains the list in which it is stored would never be
    // freed.
    call.cx_mut().extensions.insert(Recheck::default());
    recheck.insert(Arc::as_ptr(&sources).addr(), move |cx| {
        let mut call = call.clone();
        // Use the credentials of the latest request: the credentials that began the call may have expired meanwhile,
        // e.g. a token that its caller has refreshed.
        if let Some(grant) = cx.extensions.get::<CredentialGrant>() {
            call.cx_mut().extensions.insert(grant.clone());
        }
        // The tool runs already, so changes that the server has announced meanwhile need no new list.
        let server = sources.server_of(call.cx());
        let definitions = sources.definitions.as_ref().zip(server);
        let settled = definitions.map(|(definitions, server)| definitions.announcements(server));
        decide_again(&sources, &call, CallAnswers { settled, ..CallAnswers::of(&call) })
    });
}

/// Decides again about a call with the answers that it has received; asks no more questions.
fn decide_again(sources: &Sources, call: &Call, answers: CallAnswers) -> Result<(), RpcError> {
    let preparations = CallPreparations::finished(answers);
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
